"""A study as one HTML page, PNG pictures and CSV files."""

from zoolens.crosstrain.report.page import Section
from zoolens.crosstrain.report.tables import Column, Table
from zoolens.crosstrain.report.writing import write_report

__all__ = ["Column", "Section", "Table", "write_report"]
