//! Another program while a controller writes.

use super::*;

const TABLE: &str = "IngressImpl.exact_table";

fn dropping(key: u8) -> Update {
    update(UpdateType::Insert, entry_of("exact_table", exact(key), ActionChoice::Action(call("drop", &[]))))
}

/// The same tables under the same numbers: what was meant for one program would fit into the other.
#[test]
fn what_is_left_of_a_write_when_another_program_is_swapped_in_goes_nowhere() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let ports = ups(&[2, 3]);
    let engine = Engine::attach(&switch, &ports);
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    for atomicity in [Atomicity::ContinueOnError, Atomicity::RollbackOnError] {
        let mut forwarding = lock(&device.forwarding);
        device.refresh(&mut forwarding);
        done(forwarding.live.as_mut().unwrap(), vec![member(2), dropping(1)]);
        // In the middle of the batch the ports are asked for.
        let (theirs, other, mut once) = (switch.clone(), made(|_| {}).0, Some(()));
        *lock(&ports.meanwhile) = Some(Box::new(move || {
            if once.take().is_some() {
                theirs.commit_prepared(Arc::clone(&other)).unwrap();
            }
        }));
        let batch = [dropping(2), group(1, &[2]), dropping(3), dropping(4)];
        let results = forwarding.live.as_mut().unwrap().write(&batch, atomicity);
        *lock(&ports.meanwhile) = None;
        let codes: Vec<Option<Code>> =
            results.into_iter().map(|result| result.err().map(|e| e.code)).collect();
        let aborted = Some(Code::Aborted);
        let first = if atomicity == Atomicity::ContinueOnError { None } else { aborted };
        assert_eq!(codes, [first, aborted, aborted, aborted], "{atomicity:?}");
        assert!(keys(&switch, TABLE).is_empty(), "{atomicity:?}");
        // What comes next is for the program that runs.
        device.refresh(&mut forwarding);
        done(forwarding.live.as_mut().unwrap(), vec![dropping(5)]);
        assert_eq!(keys(&switch, TABLE), [5], "{atomicity:?}");
        done(
            forwarding.live.as_mut().unwrap(),
            vec![Update { r#type: UpdateType::Delete as i32, ..dropping(5) }],
        );
    }
    engine.stop();
}

/// Where the kernel forwards, an entry is in several maps.
#[test]
fn nothing_is_promised_for_packets_that_the_kernel_forwards() {
    let (prepared, config) = made(|_| {});
    let mut prepared = Arc::into_inner(prepared).unwrap();
    prepared.kind = EngineKind::Kernel;
    let switch = switch(&Arc::new(prepared));
    let engine = Engine::attach(&switch, &Ups::default());
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    let write = |updates: &[Update], atomicity| {
        let results = lock(&device.forwarding).live.as_mut().unwrap().write(updates, atomicity);
        results.into_iter().map(|result| result.err().map(|e| e.code)).collect::<Vec<_>>()
    };
    let refused = Some(Code::Unimplemented);
    assert_eq!(write(&[dropping(1), dropping(2)], Atomicity::DataplaneAtomic), [refused, refused]);
    assert_eq!(write(&[dropping(1)], Atomicity::DataplaneAtomic), [refused]);
    assert!(keys(&switch, TABLE).is_empty());
    assert_eq!(write(&[dropping(1), dropping(2)], Atomicity::RollbackOnError), [None, None]);
    engine.stop();
}
