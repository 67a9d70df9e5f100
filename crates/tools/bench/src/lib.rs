//! Workloads, experiment runner, statistics, reports.
