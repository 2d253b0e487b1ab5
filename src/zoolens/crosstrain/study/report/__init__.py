"""A study as one HTML page, charts as PNG and CSV files."""

from zoolens.crosstrain.study.report.page import write_report

__all__ = ["write_report"]
