"""What everything else stands on: errors, plug-ins, safety, processes, statistics, verdicts, the store and pages."""
