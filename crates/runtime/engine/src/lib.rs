//! Duty cycle, idle strategies, core pinning, shared counters
