"""A study as one HTML page, charts as PNG and CSV files."""

from zoolens.training.crosstrain.study.report.study_page import write_report

__all__ = ["write_report"]
