//! Clients that do not read, and engines that take nothing.

use super::super::arbitration::Session;
use super::super::outbox::{Outbox, Sent};
use super::super::stream::{MAX_ECHO, MAX_PACKET, Outgoing};
use super::*;

/// What a controller hears.
pub(super) type Inbox = tokio::sync::mpsc::Receiver<Sent>;

/// The primary of a device.
pub(super) fn primary(device: &Device) -> (Session, Outbox, Inbox) {
    let (outbox, inbox) = Outbox::new();
    let mut session = Session::default();
    let election_id = Some(Uint128 { high: 0, low: 1 });
    let update = MasterArbitrationUpdate { device_id: 1, election_id, ..MasterArbitrationUpdate::default() };
    let elected = lock(&device.arbiter).update(1, &mut session, &update, &outbox).unwrap();
    lock(&device.arbiter).confirm(&elected.unwrap());
    (session, outbox, inbox)
}

/// What has come, without news of who is primary.
pub(super) fn heard(inbox: &mut Inbox) -> Vec<StreamResponse> {
    let mut all = Vec::new();
    while let Ok(message) = inbox.try_recv() {
        let message = StreamMessageResponse::decode(message.unwrap().bytes()).unwrap();
        all.extend(message.update.filter(|update| !matches!(update, StreamResponse::Arbitration(_))));
    }
    all
}

#[test]
fn all_reads_have_one_budget_until_their_answers_have_left() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let engine = Engine::attach(&switch, &Ups::default());
    let device = Device::new(switch, 1, Some(config)).unwrap();
    done(lock(&device.forwarding).live.as_mut().unwrap(), (2..40).map(member).collect());
    let all = Entity { entity: Some(EntityKind::ActionProfileMember(ActionProfileMember::default())) };
    let request = |patterns: usize| {
        let entities = vec![all.clone(); patterns];
        ReadRequest { device_id: 1, entities, ..ReadRequest::default() }
    };
    let one = {
        let budget = Budget::new(1 << 20);
        let (messages, status) = device.read_within(&request(1), &budget).unwrap();
        status.unwrap();
        let bytes: usize = messages.iter().map(|message| message.bytes().len()).sum();
        assert_eq!(budget.taken(), bytes, "what waits is counted as it waits");
        drop(messages);
        assert_eq!(budget.taken(), 0);
        bytes
    };
    // Room for two and a half.
    let budget = Budget::new(2 * one + one / 2);
    let (first, status) = device.read_within(&request(2), &budget).unwrap();
    status.unwrap();
    let (second, status) = device.read_within(&request(1), &budget).unwrap();
    let details = RpcStatus::decode(status.unwrap_err().details()).unwrap().details;
    let error = Error::decode(&details[0].value[..]).unwrap();
    assert_eq!(error.canonical_code, Code::ResourceExhausted as i32);
    assert!(decoded(&second).len() < 38 && budget.taken() <= budget.most());
    drop((first, second));
    let many = device.read_within(&request(65_537), &budget).unwrap_err();
    assert_eq!((many.code(), budget.taken()), (Code::InvalidArgument, 0));
    let (third, status) = device.read_within(&request(2), &budget).unwrap();
    status.unwrap();
    assert_eq!(decoded(&third).len(), 76);
    engine.stop();
}

/// One that cannot apply anything, and a switch that waits a minute for it.
#[test]
fn engines_that_take_nothing_hold_no_stream_up() {
    let (prepared, config) = made(|_| {});
    let config_of_switch = SwitchConfig {
        sweep_interval: Duration::ZERO,
        answer_timeout: PATIENCE,
        max_pending: 1,
        ..SwitchConfig::default()
    };
    let switch = Switch::new(config_of_switch, Some(prepared)).unwrap();
    let device = Device::new(switch.clone(), 1, Some(config)).unwrap();
    let stalled = switch.attach(Box::new(|| {}));
    let (session, outbox, mut inbox) = primary(&device);
    let field = |metadata_id| PacketMetadata { metadata_id, value: vec![0] };
    let packet = PacketOut { payload: vec![7; 60], metadata: vec![field(1), field(2)] };
    let outgoing = || Outgoing::packet((1, &session, &outbox), packet.clone(), device.outgoing.try_place());
    let before = barewire_engine::now();
    (0..1_500).for_each(|_| device.take_outgoing(outgoing()));
    assert!(barewire_engine::now().as_nanos() - before.as_nanos() < PATIENCE.as_nanos() as u64 / 2);
    let errors = heard(&mut inbox);
    assert_eq!(errors.len(), 1_500 - 1_024);
    for error in errors {
        let StreamResponse::Error(error) = error else { panic!("{error:?}") };
        assert_eq!(error.canonical_code, Code::ResourceExhausted as i32);
        let details = StreamErrorDetails::PacketOut(PacketOutError { packet_out: Some(packet.clone()) });
        assert_eq!(error.details, Some(details), "a packet as long as a frame comes back whole");
    }
    drop(stalled);
}

#[test]
fn of_what_is_refused_little_comes_back() {
    let (prepared, config) = made(|_| {});
    let switch = switch(&prepared);
    let device = Device::new(switch, 1, Some(config)).unwrap();
    let (session, outbox, mut inbox) = primary(&device);
    let long = |payload: usize, metadata: usize| {
        let metadata = vec![PacketMetadata { metadata_id: 1, value: vec![0; metadata] }];
        PacketOut { payload: vec![7; payload], metadata }
    };
    for (payload, metadata) in [(MAX_PACKET + 1, 1), (3 << 20, 1), (60, 1 << 20)] {
        let packet = long(payload, metadata);
        device.take_outgoing(Outgoing::packet((1, &session, &outbox), packet, device.outgoing.try_place()));
        let StreamResponse::Error(error) = heard(&mut inbox).remove(0) else { panic!() };
        assert_eq!(error.canonical_code, Code::InvalidArgument as i32);
        assert!(error.encoded_len() < 3 * MAX_ECHO, "{} bytes", error.encoded_len());
        let Some(StreamErrorDetails::PacketOut(PacketOutError { packet_out: Some(echo) })) = error.details
        else {
            panic!()
        };
        assert_eq!(echo.payload.len(), payload.min(MAX_ECHO));
    }
    // Who is no primary hears so of a packet that might be sent.
    let place = device.outgoing.try_place();
    device.take_outgoing(Outgoing::packet((2, &session, &outbox), long(60, 1), place));
    let StreamResponse::Error(error) = heard(&mut inbox).remove(0) else { panic!() };
    assert_eq!(error.canonical_code, Code::PermissionDenied as i32);
}
