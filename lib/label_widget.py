"""The labelling widget: one row at a time, blind, with buttons and keys. Its logic is `lib.labelling`.

What the browser draws is `label_widget.js`. It is sent a row's texts and nothing else of the row.
"""

from __future__ import annotations

from pathlib import Path

import anywidget
import traitlets

from lib import paths
from lib.label_files import CANNOT_TELL, SHOWN
from lib.labelling import Session

KEYS = {"1": "supported", "2": "partially_supported", "3": "unsupported", "0": CANNOT_TELL}


class LabelWidget(anywidget.AnyWidget):
    """Shows the current row of a session and saves what is chosen.

    Keys work while the widget has the focus: 1, 2, 3 for the labels, 0 for "cannot tell", b for back.
    """

    _esm = Path(__file__).with_suffix(".js")
    choices = traitlets.List(list(map(list, KEYS.items()))).tag(sync=True)
    state = traitlets.Dict().tag(sync=True)

    def __init__(self, session: Session):
        self.session, self._turn = session, 0
        # Notes that were written before going back, by place.
        self._drafts: dict[int, str] = {}
        super().__init__(state=self._state())
        self.on_msg(lambda _, content, __: self.answer(content))

    def answer(self, message: dict) -> None:
        """Do what the browser asks: `label` with `note`, or `back`. What cannot be saved is said; nothing moves."""
        error = ""
        if message.get("turn", self._turn) != self._turn:
            # From a view that showed another row: nobody has seen this one under that choice.
            self._turn += 1
            self.state = self._state("That was meant for another row, and nothing was saved.")
            return
        if not self.session.finished:
            self._drafts[self.session.place] = str(message.get("note") or "")
        try:
            if message.get("back"):
                self.session.back()
            elif not self.session.finished:
                self.session.label(str(message.get("label")), str(message.get("note") or "").strip())
        except (OSError, ValueError) as found:
            # What a callback raises is seen by nobody, and the annotator would take the label for saved.
            said = getattr(found, "strerror", None) or found
            error = f"Not saved to {paths.shown(self.session.path)}: {said}"
        self._turn += 1
        self.state = self._state(error)

    def _state(self, error: str = "") -> dict:
        session = self.session
        # The turn makes each state another one: the browser waits for it.
        state = {"total": len(session), "done": session.done, "finished": session.finished, "turn": self._turn}
        if session.finished:
            done = {"said": f"All {len(session)} rows have a label. Go back to look at one again.", "texts": {}}
            return state | done | {"error": error, "label": "", "note": ""}
        row = session.current()
        before = f", this one as {row['label'].replace('_', ' ')}" if row["label"] else ""
        state |= {"said": f"{session.done} of {len(session)} labelled{before}", "error": error}
        note = self._drafts.get(session.place) or row["note"]
        return state | {"label": row["label"], "note": note, "texts": {name: row[name] for name in SHOWN}}
