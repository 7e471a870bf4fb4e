"""Whether a container's program is there, before it is started."""

import os


def _outside(path, mounts):
    """Where a path of a container lies on this machine."""
    holders = [mount for mount in mounts if (path + "/").startswith(mount.target.rstrip("/") + "/")]
    if not holders:
        return path
    holder = max(holders, key=lambda mount: len(mount.target))
    return os.path.normpath(f"{holder.source}/{path.removeprefix(holder.target.rstrip('/'))}")


def why_not(name, search, directory, mounts):
    """What a container runtime says of a program that it can't start; "": it can. `search`: its PATH."""
    if "/" in name:
        candidates = [os.path.normpath(os.path.join(directory, name))]
    else:
        candidates = [os.path.join(folder, name) for folder in search.split(":") if folder]
    found = [path for path in (_outside(one, mounts) for one in candidates) if os.path.isfile(path)]
    if any(os.access(path, os.X_OK) for path in found):
        return ""
    if found:
        return f'exec: "{name}": permission denied'
    return f'exec: "{name}": ' + ("stat: no such file or directory"
                                  if "/" in name else "executable file not found in $PATH")
