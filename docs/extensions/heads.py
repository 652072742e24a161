"""Adds the directive `heads`, which shows attention weights of trained networks interactively.

    ```{heads} explain-attention
    ```

The arguments name files of --mode=explain in results/studies. Two files let readers compare two networks.
The page holds all weights, so it also works when it is opened from a disk.
"""

import html
import json
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from evidence.pages.markdown import origin

RESULTS = Path(__file__).resolve().parents[2] / "results" / "studies"
PAGE = """<div class="attention" id="attention" hidden></div>
<details><summary>Command and machine</summary><p>{origins}</p></details>
<noscript><p>Without JavaScript, use the picture below: it has the weights of all heads.</p></noscript>
<script type="application/json" id="attention-runs">{runs}</script>
<script src="{script}"></script>"""


class Heads(SphinxDirective):
    required_arguments, final_argument_whitespace = 1, True

    def run(self) -> list[nodes.Node]:
        runs, origins = [], []
        for name in self.arguments[0].split():
            file = RESULTS / f"{name}.json"
            self.env.note_dependency(str(file))
            document = json.loads(file.read_text())
            runs.append({key: document[key] for key in ("run", "tokens", "blocks")})
            origins.append(
                f"<code>{html.escape(document['command'])}</code>: {html.escape(origin(document))}"
            )
        up = "../" * self.env.docname.count("/")
        data = json.dumps(runs, separators=(",", ":")).replace("<", "\\u003c")
        page = PAGE.format(runs=data, origins="<br>".join(origins), script=f"{up}_static/attention.js")
        return [nodes.raw("", page, format="html")]


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("heads", Heads)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
