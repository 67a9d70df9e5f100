//! A link node in virtual time: the agent of the real one, between two ports of this world.

use super::port::{Queues, WorldPort};
use crate::link_node::{LinkAgent, LinkReport};
use crate::topology::LinkPlan;
use barewire_base::Instant;
use barewire_engine::Agent;
use barewire_frame::Frame;
use barewire_port::{Direction, Fault, FaultConfig, Port};
use barewire_sim::Node;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The node.
pub(super) struct LinkStation {
    agent: LinkAgent,
    queues: [Rc<RefCell<Queues>>; 2],
    report: Rc<Cell<LinkReport>>,
}

impl LinkStation {
    pub(super) fn new(link: &LinkPlan) -> Result<LinkStation, &'static str> {
        let queues = [(); 2].map(|()| Rc::new(RefCell::new(Queues::default())));
        let port = |end: usize, direction: usize| {
            let port = WorldPort::new(link.mtu, Rc::clone(&queues[end]));
            let config = FaultConfig {
                settings: link.faults[direction].clone(),
                seed: link.seeds[direction],
                direction: Direction::Tx,
            };
            Fault::new(Box::new(port) as Box<dyn Port>, &config)
        };
        let report = Rc::new(Cell::new(LinkReport::default()));
        // What goes forward is sent by the second port.
        let agent = LinkAgent::new(&link.name, [port(0, 1)?, port(1, 0)?], None, Rc::clone(&report));
        Ok(LinkStation { agent, queues, report })
    }

    /// What it has done.
    pub(super) fn report(&mut self) -> LinkReport {
        self.agent.publish(Instant::ZERO);
        self.report.get()
    }

    fn work(&mut self, now: Instant) {
        while self.agent.do_work(now) > 0 {}
    }
}

impl Node for LinkStation {
    fn handle_frame(&mut self, now: Instant, frame: Frame) {
        let port = usize::from(frame.port());
        if let Some(queues) = self.queues.get(port) {
            queues.borrow_mut().arrived.push_back(frame);
        }
        self.work(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.work(now);
    }

    fn poll_transmit(&mut self, _now: Instant) -> Option<Frame> {
        for (port, queues) in self.queues.iter().enumerate() {
            if let Some(mut frame) = queues.borrow_mut().leaving.pop_front() {
                frame.set_port(port as u16);
                return Some(frame);
            }
        }
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.agent.next_deadline()
    }
}
