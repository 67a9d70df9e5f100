#[path = "../../../../fuzz/src/targets/p4_lower.rs"]
mod p4_lower;
#[test]
fn many() {
    let n: u64 = std::env::var("N").ok().and_then(|n| n.parse().ok()).unwrap_or(3000);
    let seed: u64 = std::env::var("SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    let mut bad = 0;
    std::panic::set_hook(Box::new(|_| {}));
    let mut smallest: Option<(usize, String)> = None;
    for at in 0..n {
        let mut prng = barewire_base::Prng::new(seed * 1_000_003 + at);
        let len = 10 + prng.below(300) as usize;
        let mut data = vec![0; len];
        prng.fill(&mut data);
        if let Err(e) = std::panic::catch_unwind(|| p4_lower::p4_lower(&data)) {
            let text = e.downcast_ref::<String>().cloned().unwrap_or_default();
            bad += 1;
            if smallest.as_ref().is_none_or(|(l, _)| text.len() < *l) {
                smallest = Some((text.len(), text));
            }
        }
    }
    println!("{bad} of {n} bad");
    if let Some((_, text)) = smallest {
        println!("{text}");
    }
    for line in p4_lower::corpus() {
        let _ = line;
    }
}
