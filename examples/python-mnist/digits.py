"""Handwritten digits: MNIST's files where there are some, drawn ones otherwise."""

import gzip
import math
import os

import numpy as np
import torch
from torch.utils.data import TensorDataset

SIDE = 28


def _read_idx(path):
    with gzip.open(path, "rb") if path.endswith(".gz") else open(path, "rb") as file:
        data = file.read()
    dimensions = data[3]
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def _find(folder, name):
    for path in (os.path.join(folder, name), os.path.join(folder, name + ".gz")):
        if os.path.exists(path):
            return path
    raise FileNotFoundError(f"{folder} holds no {name}")


def _arc(x, y, rx, ry, begin, end):
    """Part of an ellipse as a chain of points; angles in turns, clockwise from the right."""
    angles = 2 * math.pi * np.linspace(begin, end, 9)
    return np.stack([x + rx * np.cos(angles), y + ry * np.sin(angles)], axis=1)


# In a box from (-1, -1) at the top left to (1, 1).
_STROKES = [
    [_arc(0, 0, .6, .9, 0, 1)],
    [np.array([(-.35, -.5), (.1, -.9), (.1, .9)])],
    [_arc(0, -.4, .55, .5, -.5, .1), np.array([(.45, -.1), (-.6, .9), (.65, .9)])],
    [_arc(-.05, -.45, .55, .45, -.4, .25), _arc(-.05, .45, .6, .45, -.25, .4)],
    [np.array([(.2, -.9), (-.65, .3), (.65, .3)]), np.array([(.3, -.3), (.3, .9)])],
    [np.array([(.55, -.9), (-.45, -.9), (-.5, -.1)]), _arc(-.05, .35, .6, .55, -.38, .4)],
    [_arc(.35, .2, .9, 1.1, -.28, -.5), _arc(0, .4, .52, .5, 0, 1)],
    [np.array([(-.6, -.9), (.6, -.9), (-.15, .9)])],
    [_arc(0, -.45, .45, .45, 0, 1), _arc(0, .45, .55, .45, 0, 1)],
    [_arc(0, -.4, .5, .5, 0, 1), np.array([(.5, -.4), (.4, .3), (.1, .9)])],
]


def _draw(digit, random):
    turn, shear = random.uniform(-.3, .3, 2)
    width, height = random.uniform(6.5, 10.5), random.uniform(8, 10.5)
    rotation = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    move = (SIDE - 1) / 2 + random.uniform(-2, 2, 2)
    begins, ends = [], []
    for stroke in _STROKES[digit]:
        points = stroke + random.uniform(-.06, .06, stroke.shape)
        points = np.stack([(points[:, 0] + shear * points[:, 1]) * width, points[:, 1] * height], axis=1)
        points = points @ rotation.T + move
        begins.append(points[:-1])
        ends.append(points[1:])
    begin, along = np.concatenate(begins), np.concatenate(ends) - np.concatenate(begins)
    y, x = np.mgrid[0:SIDE, 0:SIDE]
    pixels = np.stack([x.ravel(), y.ravel()], axis=1)[:, None, :] - begin
    t = np.clip((pixels * along).sum(2) / np.maximum((along ** 2).sum(1), 1e-9), 0, 1)
    distance = np.sqrt(((pixels - t[..., None] * along) ** 2).sum(2)).min(1)
    ink = 255 * np.clip(random.uniform(.8, 1.8) + .5 - distance, 0, 1)
    noise = random.uniform(0, 40)
    return np.clip(ink + random.uniform(-noise, noise, ink.shape), 0, 255).astype(np.uint8)


def _drawn(count, seed, cache):
    """Drawn digits, which are kept in the folder `cache` for the next start of the program."""
    path = os.path.join(cache, f"digits-{count}-{seed}.npz") if cache else None
    if path and os.path.exists(path):
        with np.load(path) as known:
            return known["images"], known["labels"]
    random = np.random.default_rng(seed)
    labels = random.integers(0, 10, count)
    images = np.stack([_draw(label, random) for label in labels]).reshape(-1, SIDE, SIDE)
    if path:
        own = f"{path}.{os.getpid()}.npz"
        np.savez(own, images=images, labels=labels)
        os.rename(own, path)
    return images, labels


def load(folder, samples, seed, cache, train=0):
    """Data sets to train on, with so many digits (0: four fifths), and to test with."""
    if folder:
        images = _read_idx(_find(folder, "t10k-images-idx3-ubyte"))
        labels = _read_idx(_find(folder, "t10k-labels-idx1-ubyte"))
    else:
        images, labels = _drawn(samples, seed, cache)
    inputs = torch.from_numpy(images.astype(np.float32) / 255).sub(.13).div(.31).unsqueeze(1)
    targets = torch.from_numpy(labels.astype(np.int64))
    cut = train or len(targets) * 4 // 5
    return TensorDataset(inputs[:cut], targets[:cut]), TensorDataset(inputs[cut:], targets[cut:])
