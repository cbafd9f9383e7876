"""A real language model behind llama.cpp's own HTTP server: model_server.py WEIGHTS. Runs in an environment of its own,
and prints `ready http://HOST:PORT`. Ends with its standard input."""

import sys

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.hostnames = ["127.0.0.1"]
settings.port = 0
settings.n_ctx = 4096
settings.n_parallel = 1
settings.cpuparams.n_threads = 2
settings.verbosity = 0
server = xllamacpp.Server(settings)
print("ready", server.listening_address, flush=True)
sys.stdin.read()
