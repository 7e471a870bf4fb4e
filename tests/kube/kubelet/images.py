"""What stands for images: this machine's file system, and what an image says besides."""

from .environment import Missing

# What containers wait for whose image is not there.
PULLING = ("ErrImagePull", "ImagePullBackOff")


class Images:
    """`known`: {name: {"entrypoint": [..], "command": [..], "env": {..}, "workingDir": ".."}}."""

    def __init__(self, known):
        self._known = known

    def find(self, name):
        if name not in self._known:
            raise Missing(f'failed to pull and unpack image "{name}": not found', PULLING[0])
        return self._known[name]
