"""What `python -m adaptdl` finds: the parts that training needs, and whether each of them works."""

import ctypes
import os
import platform
import re
import sys
from types import ModuleType
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from adaptdl import Error, __version__, _engine, _installed

CONTROL_FUNCTION = "AdaptdlCreateControlPlane"
OLDEST_TORCH = (1, 13)
OLDEST_PYTHON = (3, 9)
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|KEY")


def make() -> Dict[str, Any]:
    """The report. Its "problems" are what keeps programs from training, in words."""
    problems: List[str] = []
    report: Dict[str, Any] = {
        "version": __version__,
        "folder": _installed.FOLDER,
        "python": {"version": platform.python_version(), "path": sys.executable},
        "engine": _engine_found(problems),
        "control": _control_found(problems),
        "gpus": _gpus_found(),
        "torch": _torch_found(problems),
        "old_package": _installed.old_package(),
        "altered_files": _installed.altered_files(),
        "environment": environment(dict(os.environ)),
    }
    if sys.version_info < OLDEST_PYTHON:
        problems.append(f"Python {platform.python_version()} is too old: use 3.9 or a newer one")
    if report["altered_files"]:
        problems.append("files are not those of the wheel, another package may have overwritten them: "
                        f"python -m pip install --force-reinstall --no-deps {_installed.DISTRIBUTION}")
    if (report["torch"] or {}).get("cuda_devices") and not report["gpus"]["opens"]:
        problems.append(f"PyTorch sees GPUs, and {report['gpus']['path']} cannot be opened, without which models there are "
                        "refused: use a build of the package with -DADAPTDL_CUDA=ON")
    report["problems"] = problems
    return report


def _engine_found(problems: List[str]) -> Dict[str, Any]:
    found: Dict[str, Any] = {"path": _engine.LIBRARY, "interface": None,
                             "expected_interface": _engine.INTERFACE}
    try:
        found["interface"] = _engine.engine.interface()
    except (Error, AttributeError) as error:
        problems.append(f"the engine does not work: {error}")
    return found


def _control_found(problems: List[str]) -> Dict[str, Any]:
    """The library that jobs on a cluster talk to the supervisor by."""
    own = os.path.join(_installed.FOLDER, "libadaptdl_control.so")
    path = os.environ.get("ADAPTDL_CONTROL_LIBRARY") or own
    found = {"path": path, "opens": False}
    try:
        # As the engine opens it.
        getattr(ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL | os.RTLD_DEEPBIND), CONTROL_FUNCTION)
        found["opens"] = True
    except (OSError, AttributeError) as error:
        problems.append(f"the control plane's library, which jobs on a cluster need, does not work: {error}")
    return found


def _gpus_found() -> Dict[str, Any]:
    """The library that drives NVIDIA's GPUs, which not every build has."""
    own = os.path.join(_installed.FOLDER, "libadaptdl_cuda.so")
    path = os.environ.get("ADAPTDL_CUDA_LIBRARY") or own
    try:
        ctypes.CDLL(path, os.RTLD_NOW | os.RTLD_LOCAL)
        return {"path": path, "opens": True}
    except OSError:
        return {"path": path, "opens": False}


def _torch_found(problems: List[str]) -> Optional[Dict[str, Any]]:
    try:
        import torch
    except Exception as error:  # pylint: disable=broad-except
        problems.append(f"PyTorch cannot be imported: {error}; install it: python -m pip install torch")
        return None
    supported = is_supported(torch.__version__)
    if not supported:
        problems.append(f"PyTorch {torch.__version__} is too old: use 1.13 or a newer one")
    devices = torch.cuda.device_count() if torch.version.cuda else 0
    return {"version": str(torch.__version__), "supported": supported,
            "path": os.path.dirname(torch.__file__), "cuda": torch.version.cuda, "cuda_devices": devices,
            "nccl": _nccl_version(torch)}


def is_supported(version: str) -> bool:
    """Whether the package works with this version of PyTorch."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return numbers is not None and (int(numbers[1]), int(numbers[2])) >= OLDEST_TORCH


def _nccl_version(torch: ModuleType) -> Optional[str]:
    """Of the NCCL that PyTorch brings along. None: it has none."""
    try:
        return ".".join(map(str, torch.cuda.nccl.version()))
    except (AttributeError, RuntimeError):
        return None


def environment(variables: Dict[str, str]) -> Dict[str, str]:
    """The variables of AdaptDL, without what only the job may know."""
    return {name: _shown(name, value) for name, value in sorted(variables.items())
            if name.startswith("ADAPTDL_")}


def _shown(name: str, value: str) -> str:
    if not value or name.endswith("_FILE"):
        return value
    if _SECRET.search(name):
        return "(hidden)"
    if "://" in value:  # a replica's own URL holds its secret
        address = urlsplit(value)
        return f"{address.scheme}://{address.netloc.rpartition('@')[2]}/(hidden)"
    return value


def lines(report: Dict[str, Any]) -> List[str]:
    """The report for people."""
    torch, old = report["torch"], report["old_package"]
    opens = "opens" if report["control"]["opens"] else "does not open"
    drives = report["gpus"]["path"] if report["gpus"]["opens"] else "no library for them in this build"
    texts = [f"adaptdl {report['version']} in {report['folder']}",
             f"Python   {report['python']['version']}, {report['python']['path']}",
             f"engine   {report['engine']['path']}, interface {report['engine']['interface'] or 'unknown'}",
             f"control  {report['control']['path']}, {opens}", f"GPUs     {drives}"]
    if torch is None:
        texts.append("PyTorch  none")
    else:
        supported = "supported" if torch["supported"] else "not supported"
        texts.append(f"PyTorch  {torch['version']}, {supported}, {torch['path']}")
        devices = "not in this PyTorch"
        if torch["cuda"]:
            devices = f"{torch['cuda']}, {torch['cuda_devices']} devices"
        texts.append(f"CUDA     {devices}; NCCL {torch['nccl'] or 'none'}")
    if old is not None:
        texts.append(f"warning: AdaptDL's package {old['version']} is installed too, in {old['folder']}; "
                     f"remove it: {old['removal']}")
    texts += [f"{name}={value}" for name, value in report["environment"].items()]
    return texts + [f"problem: {problem}" for problem in report["problems"]]
