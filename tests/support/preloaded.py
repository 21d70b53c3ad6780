"""What processes import and load later than at their start, for the process that the tests fork.

That is what memory does when it opens its store, and the SDKs of models (0.6 s) and MCP (1 s).

lancedb is made to be forked: in the child it starts its threads anew, and warns of work that a fork cuts off.
The process that is forked does none, and a session of onnxruntime with one thread has no others. It comes
after all other imports: what exists then is left out of the search for garbage in each child.
"""

import gc
import warnings

import mcp.client.auth
import mcp.server.streamable_http_manager  # noqa: F401
import openai  # noqa: F401

from services.memory.storage.tables import import_lancedb
from tests.support.once import load_for_forks

warnings.filterwarnings("ignore", "lancedb fork support is experimental", RuntimeWarning)
import_lancedb()
load_for_forks()
gc.collect()
gc.freeze()
