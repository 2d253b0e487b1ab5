"""The jobs of `made_home`, and what they found, made of given words."""

import json
from dataclasses import replace


def write_jobs(words, pair):
    """Jobs that ended. Gives the ids of an audit, and of what was found about two runs."""
    from zoolens.faces.ui.jobs.folder import make_job_folder

    def ended(kind, title, parameters, printed, code=0):
        job = make_job_folder(kind, title, parameters, [kind, title])
        job.messages_file.write_text(f"Error: {title[:100_000]}", encoding="utf-8")
        job.output_file.write_text(json.dumps(printed), encoding="utf-8")
        job.write_end(code)
        return job.id

    for text in words.each:
        ended(text[:100], text, {}, [{"run": text[:100_000]}], code=1)
    return {
        "compare": ended("compare", words.all, pair, {"cause": words.all}),
        "diverge": ended("diverge", words.all, pair, made_divergence(words)),
        "audit": ended("audit", words.all, {}, made_audit(words).as_data()),
    }


def made_divergence(words):
    """What `zoolens diverge --json` prints."""
    side = {"title": words.all, "runtime": words.all, "version": words.all, "precision": words.all, "layers": 9}
    alone = {"local": 1e-7, "local_why": "value"}
    layer = {"error": 1e-3, "floor": 1e-6, "why": "value", "sides": {"a": alone, "b": alone}}
    flip = {"label": 1, "a": 1, "b": 2, "error": 0.5}
    return {
        "a": side,
        "b": side,
        "data": words.all,
        "origin": {"data": words.all, "limit": None, "seed": None, "fingerprint": words.all},
        "agrees": False,
        "verdict": words.all,
        "first": {"layer": words.all},
        "floor": words.all,
        "sentences": words.cut(100_000),
        "causes": [
            {"kind": text, "sentence": text, "label": text, "proved": True, "proof": {"holds": True, "sentence": text}}
            for text in words.cut(10_000)
        ],
        "layers": [{**layer, "layer": text, "verdict": text} for text in words.cut(10_000)],
        "answers": {
            "inputs": 18,
            "flips": len(words.each),
            "flipped": [{**flip, "input": text, "index": place} for place, text in enumerate(words.cut(10_000))],
        },
        "notes": words.cut(100_000),
    }


def made_audit(words):
    from zoolens.findings.audit.audit_findings import Finding, Severity, ranked
    from zoolens.findings.audit.report.test_report import audit

    found = [
        Finding(f"structure/{text[:1_000]}", severity, text, (text, words.all), text, (text, words.all), text)
        for text, severity in zip(words.cut(100_000), [*Severity] * len(words.each), strict=False)
    ]
    return replace(audit(), findings=ranked(found), notes=tuple(words.cut(100_000)), facts={"summary": words.all})
