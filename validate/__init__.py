"""Records <-> records: real llama.cpp passes, timed, and compared with the predicted ones."""
