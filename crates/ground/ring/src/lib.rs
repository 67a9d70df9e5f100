//! SPSC and MPSC rings over any memory
