"""Python's `mcp` 1.x as a judge: each line of the input is `["CallToolResult", {…}]`, each line of the output
an empty string, or why that version cannot parse it."""

import json
import sys

from mcp import types

for line in sys.stdin:
    name, value = json.loads(line)
    try:
        getattr(types, name).model_validate(value)
    except ValueError as error:
        print(json.dumps(str(error)), flush=True)
    else:
        print('""', flush=True)
