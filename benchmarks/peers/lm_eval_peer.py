"""Log-likelihoods by lm-evaluation-harness, for `language_models.py`. It runs in an environment with lm-eval.

    python lm_eval_peer.py MODEL ASKED ANSWER

ASKED is JSON: {"texts": [...], "pairs": [[context, continuation], ...]}; ANSWER gets a list of nats.
"""

import json
import sys
from pathlib import Path

from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

model, asked, answer = sys.argv[1:]
wanted = json.loads(Path(asked).read_text("utf-8"))
language_model = HFLM(pretrained=model, device="cpu", dtype="float32", batch_size=1)


def requests(kind: str, arguments: list[tuple[str, ...]]) -> list[Instance]:
    return [Instance(kind, {}, one, place) for place, one in enumerate(arguments)]


found = language_model.loglikelihood_rolling(
    requests("loglikelihood_rolling", [(text,) for text in wanted["texts"]]), disable_tqdm=True
)
pairs = [tuple(pair) for pair in wanted["pairs"]]
found += [nats for nats, _ in language_model.loglikelihood(requests("loglikelihood", pairs), disable_tqdm=True)]
Path(answer).write_text(json.dumps(found), "utf-8")
