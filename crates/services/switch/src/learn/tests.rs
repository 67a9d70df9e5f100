use super::*;
use crate::store::testing::program;

const MACS: LearnListId = LearnListId(0);
const SMALL: LearnListId = LearnListId(1);

fn sample(i: u8) -> [u8; 8] {
    [0, 1, 2, 3, 4, i, 1, 0xff]
}

fn poll(learner: &mut Learner, now_us: u64) -> Vec<DigestList> {
    let mut out = Vec::new();
    learner.poll(now_us, &mut out);
    out
}

#[test]
fn a_buffer_is_sent_when_full_or_after_its_time() {
    let mut learner = Learner::new(&program(), 0);
    assert_eq!((learner.sample_bytes(MACS), learner.sample_bytes(SMALL)), (8, 1));
    for i in 0..16 {
        assert!(poll(&mut learner, 0).is_empty());
        learner.sample(MACS, &sample(i), 5);
        learner.sample(MACS, &sample(i), 5);
    }
    assert_eq!(learner.next_deadline_us(), Some(0));
    let sent = poll(&mut learner, 5);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].list, sent[0].buffer, sent[0].first_sample, sent[0].samples.len()), (7, 0, 0, 16));
    assert_eq!(sent[0].samples[3], [vec![0, 1, 2, 3, 4, 3], vec![1, 0xff]]);
    assert_eq!(learner.next_deadline_us(), None);
    learner.sample(MACS, &sample(3), 6);
    assert_eq!(learner.next_deadline_us(), None, "known until acknowledged");
    learner.sample(MACS, &sample(99), 1000);
    learner.sample(MACS, &sample(98), 2000);
    learner.sample(SMALL, &[1], 500_000);
    assert_eq!(learner.next_deadline_us(), Some(1_001_000));
    assert!(poll(&mut learner, 1_000_999).is_empty());
    let sent = poll(&mut learner, 1_001_000);
    assert_eq!((sent[0].buffer, sent[0].first_sample, sent[0].samples.len()), (1, 16, 2));
    assert_eq!(learner.next_deadline_us(), Some(1_500_000));
    assert_eq!(learner.counts(), (19, 17));
    learner.sample(MACS, &[1, 2], 0);
    learner.sample(LearnListId(9), &[], 0);
    assert_eq!(learner.counts(), (19, 17), "what is not a sample is ignored");
}

#[test]
fn what_is_acknowledged_may_come_again() {
    let mut learner = Learner::new(&program(), 2);
    learner.set_max_samples(7, 3);
    for i in 0..3 {
        learner.sample(MACS, &sample(i), 0);
    }
    let buffer = poll(&mut learner, 0)[0].buffer;
    assert_eq!(buffer, 2 << 48, "each engine numbers its own");
    learner.ack(7, buffer, Some(1));
    learner.ack(7, buffer, Some(1));
    learner.ack(7, buffer, Some(u64::MAX));
    learner.ack(7, buffer + 1, None);
    learner.ack(3, buffer, None);
    for i in 0..3 {
        learner.sample(MACS, &sample(i), 0);
    }
    learner.set_timeout(7, 1);
    let again = poll(&mut learner, 1000);
    assert_eq!(again[0].samples, [[vec![0, 1, 2, 3, 4, 1], vec![1, 0xff]]], "only the acknowledged one");
    learner.ack(7, buffer, None);
    learner.sample(MACS, &sample(0), 2000);
    learner.set_timeout(7, 0);
    assert_eq!(learner.next_deadline_us(), None);
    assert!(poll(&mut learner, u64::MAX).is_empty(), "no time-out: only when full");
    learner.sample(MACS, &sample(2), 2000);
    learner.set_max_samples(7, 0);
    assert_eq!(poll(&mut learner, 2000)[0].samples.len(), 2, "a smaller size sends what waits");
    learner.sample(MACS, &sample(77), 2000);
    assert_eq!(poll(&mut learner, 2000)[0].samples.len(), 1, "0 counts as 1");
}

#[test]
fn memory_is_bounded_when_nobody_acknowledges() {
    let mut learner = Learner::new(&program(), 0);
    learner.set_max_samples(7, 1000);
    let mut buffers = 0;
    for i in 0..200_000u32 {
        let mut sample = [0; 8];
        sample[..4].copy_from_slice(&i.to_be_bytes());
        learner.sample(MACS, &sample, 0);
        buffers += poll(&mut learner, 0).len();
    }
    assert_eq!(buffers, 200, "all of them are told all the same");
    assert!(learner.lists[0].known.len() <= MAX_UNACKED && learner.lists[0].sent.len() <= MAX_UNACKED / 1000);
    learner.sample(MACS, &[0; 8], 0);
    assert_eq!(learner.lists[0].waiting.len(), 1, "the oldest has been forgotten");
}
