//! Time stamps, histograms, machine fingerprint
