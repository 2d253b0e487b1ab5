"""Trains one detector. Each shape belongs to the cell that its centre lies in."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .network import CELLS, STRIDE, Detector
from .pictures import CLASSES, Picture, draw

PICTURES: Final = 3000
EPOCHS: Final = 10
_BATCH: Final = 64
_RATE: Final = 1e-2
_BOX_WEIGHT: Final = 0.1  # of a pixel beside the loss of classes


def train(width: int, seed: int) -> Detector:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    random = np.random.default_rng(seed)
    inputs, boxes, classes = (torch.from_numpy(part) for part in _targets([draw(random) for _ in range(PICTURES)]))
    model = Detector(width)
    optimizer = torch.optim.Adam(model.parameters(), _RATE)
    steps = EPOCHS * (PICTURES // _BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps)
    for _ in range(EPOCHS):
        order = torch.randperm(PICTURES)
        for place in range(PICTURES // _BATCH):
            rows = order[place * _BATCH : (place + 1) * _BATCH]
            loss = _loss(model, inputs[rows].float(), boxes[rows], classes[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    model.eval()
    return model


def _targets(pictures: list[Picture]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pixels; the box of each cell (centre and sides), NaN where there is none; and whether it shows each class."""
    inputs = np.stack([picture.pixels.transpose(2, 0, 1) for picture in pictures])
    boxes = np.full((len(pictures), CELLS * CELLS, 4), np.nan, np.float32)
    classes = np.zeros((len(pictures), CELLS * CELLS, len(CLASSES)), np.float32)
    for number, picture in enumerate(pictures):
        for (left, top, width, height), kind in zip(picture.boxes, picture.classes, strict=True):
            centre = left + width / 2, top + height / 2
            cell = int(centre[1] // STRIDE) * CELLS + int(centre[0] // STRIDE)
            boxes[number, cell] = (*centre, width, height)
            classes[number, cell] = 0
            classes[number, cell, kind] = 1
    return inputs, boxes, classes


def _loss(model: Detector, pixels: Tensor, boxes: Tensor, classes: Tensor) -> Tensor:
    cells = model.cells(pixels)
    shown = ~boxes[..., 0].isnan()
    scores = functional.binary_cross_entropy_with_logits(cells[..., 4:], classes, reduction="sum")
    places = functional.l1_loss(model.boxes(cells)[shown], boxes[shown], reduction="sum")
    return (scores + _BOX_WEIGHT * places) / len(pixels)
