"""The trial of a search that this process belongs to: `adaptdl.trial.params["lr"]`.

Outside of a search there are no parameters: `params.get("lr", 0.1)` is right in both cases.
"""

import json
import os
from typing import Any, Dict, Optional

__all__ = ["get_params", "number", "params", "search"]


def get_params() -> Dict[str, Any]:
    """The values of this trial's parameters, those that are there. Empty outside of a search."""
    text = os.environ.get("ADAPTDL_TRIAL_PARAMS", "")
    values = json.loads(text) if text else {}
    if not isinstance(values, dict):
        raise ValueError(f"ADAPTDL_TRIAL_PARAMS is {text[:60]!r}: give a mapping of names to values, as JSON")
    return values


params: Dict[str, Any] = get_params()
# Its number from 1 on, and the name of its search. None: this is no trial.
number: Optional[int] = int(os.environ["ADAPTDL_TRIAL_NUMBER"]) if os.environ.get("ADAPTDL_TRIAL_NUMBER") else None
search: Optional[str] = os.environ.get("ADAPTDL_TRIAL_SEARCH") or None
