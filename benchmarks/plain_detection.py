"""What one writes in an afternoon to score a TFLite detector on COCO, without zoolens: a loop and pycocotools.

python benchmarks/plain_detection.py MODEL.tflite ANNOTATIONS.json IMAGES SIDE THREADS

pycocotools, or faster-coco-eval under its name, must be on the path; `benchmarks/detection.py` calls this.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from PIL import Image
from pycocotools.coco import COCO  # type: ignore[import-not-found]
from pycocotools.cocoeval import COCOeval  # type: ignore[import-not-found]


def main() -> None:
    model, annotations, images = (Path(given) for given in sys.argv[1:4])
    side, threads = map(int, sys.argv[4:6])
    truth = COCO(str(annotations))
    interpreter = Interpreter(str(model), num_threads=threads)
    interpreter.allocate_tensors()
    place = interpreter.get_input_details()[0]["index"]
    boxes_at, classes_at, scores_at, count_at = (output["index"] for output in interpreter.get_output_details())
    found = []
    for about in truth.loadImgs(truth.getImgIds()):
        with Image.open(images / about["file_name"]) as image:
            pixels = np.asarray(image.convert("RGB").resize((side, side), Image.Resampling.BILINEAR))
        interpreter.set_tensor(place, pixels[None])
        interpreter.invoke()
        boxes, classes, scores = (interpreter.get_tensor(at)[0] for at in (boxes_at, classes_at, scores_at))
        for number in range(int(interpreter.get_tensor(count_at)[0])):
            top, left, bottom, right = boxes[number] * ([about["height"], about["width"]] * 2)
            box = [float(left), float(top), float(right - left), float(bottom - top)]
            found.append(
                {
                    "image_id": about["id"],
                    "category_id": int(classes[number]) + 1,
                    "bbox": box,
                    "score": float(scores[number]),
                }
            )
    judged = COCOeval(truth, truth.loadRes(found), "bbox")
    judged.evaluate()
    judged.accumulate()
    judged.summarize()
    print(f"AP {judged.stats[0]:.10f}")


if __name__ == "__main__":
    main()
