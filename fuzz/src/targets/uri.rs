//! Port names.

use barewire_port::PortUri;
use std::hint::black_box;

/// `data` as what a user typed where a port is wanted.
pub fn uri(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let mut uri: PortUri = match text.parse() {
        Ok(uri) => uri,
        Err(error) => {
            black_box(error.to_string());
            return 1;
        }
    };
    assert_eq!(uri.text(), text);
    let printed = uri.to_string();
    let again: PortUri =
        printed.parse().unwrap_or_else(|e| panic!("`{printed}`, printed, does not parse: {e}"));
    assert_eq!(again, uri, "`{text}` prints as `{printed}`");
    assert_eq!(again.to_string(), printed);
    let options = uri.options.len();
    black_box(uri.take::<u16>("queue").is_ok());
    black_box(uri.take_flag("promiscuous").is_ok());
    black_box(uri.take_choice("mode", &[("copy", 1), ("zero-copy", 2)]).is_ok());
    black_box(uri.take_text("speed"));
    assert!(uri.options.len() <= options && options - uri.options.len() <= 4);
    // Whoever finishes hears of what nobody took.
    assert_eq!(uri.finish().is_err(), !uri.options.is_empty());
    let wrappers = uri.wrappers.len();
    assert_eq!(std::iter::from_fn(|| uri.unwrap_outer()).count(), wrappers);
    1
}

/// Names of every scheme.
pub fn corpus() -> Vec<Vec<u8>> {
    [
        "xdp:eth0",
        "xdp:eth0?queue=1&mode=copy",
        "packet:eth0?promiscuous=1",
        "fault+trace+xdp:eth0?loss=0.01&seed=7&file=a%20b.pcap",
        "trace+mem:left?slots=64",
        "dpdk:0000:3b:00.0",
        "pcap:in.pcap?out=out.pcap&speed=10",
        "pcap:",
        "unix:/run/a.sock,/run/b.sock",
        "mem:%3f%26%3D%25%2b\u{e4}",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
