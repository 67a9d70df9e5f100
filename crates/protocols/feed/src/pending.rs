//! Entries that wait: for the end of their event, or for the snapshot that they continue.
//!
//! One pool of nodes for the whole channel, taken at start; each instrument strings its own into chains. A chain is first
//! in, first out.

/// No node.
pub(crate) const NIL: u32 = u32::MAX;

/// What a node asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A price-level entry of a book.
    #[default]
    Level,
    /// The order book starts anew (a top-orders overlay).
    OrdersBegin,
    /// One order of an overlay.
    Order,
    /// An order was added, changed or deleted.
    OrderUpdate,
}

/// One waiting entry. What the fields mean follows from `kind`: an order's display quantity is in `quantity`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    pub(crate) next: u32,
    pub(crate) rpt_seq: u32,
    pub(crate) price: i64,
    pub(crate) quantity: i64,
    pub(crate) order_id: u64,
    pub(crate) priority: u64,
    pub(crate) orders: i32,
    pub(crate) tradeable: i32,
    /// Of an order: how many events had ended before its own.
    pub(crate) event: u32,
    pub(crate) level: u8,
    pub(crate) action: u8,
    pub(crate) entry_type: u8,
    pub(crate) kind: Kind,
}

/// A queue of nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) head: u32,
    pub(crate) tail: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { head: NIL, tail: NIL };

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.head == NIL
    }
}

/// The pool.
#[derive(Debug)]
pub(crate) struct Pool {
    nodes: Box<[Node]>,
    free: u32,
    used: usize,
}

impl Pool {
    /// The node that will be taken next.
    pub(crate) fn next(&self) -> Option<&Node> {
        self.nodes.get(self.free as usize)
    }

    pub(crate) fn new(capacity: usize) -> Self {
        let mut nodes = vec![Node::default(); capacity].into_boxed_slice();
        let len = nodes.len();
        for (i, node) in nodes.iter_mut().enumerate() {
            node.next = if i + 1 < len { i as u32 + 1 } else { NIL };
        }
        Pool { nodes, free: if len == 0 { NIL } else { 0 }, used: 0 }
    }

    /// Nodes in use.
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    /// Whether no more than a quarter of the nodes is left: what can be done without leaves these to what cannot.
    #[inline]
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.used >= self.nodes.len() - self.nodes.len() / 4
    }

    /// Appends `node` to `chain` and gives its index; `None` when the pool is empty.
    pub(crate) fn push(&mut self, chain: &mut Chain, node: Node) -> Option<u32> {
        let at = self.free;
        let slot = self.nodes.get_mut(at as usize)?;
        self.free = slot.next;
        *slot = Node { next: NIL, ..node };
        if chain.head == NIL {
            chain.head = at;
        } else {
            self.nodes[chain.tail as usize].next = at;
        }
        chain.tail = at;
        self.used += 1;
        Some(at)
    }

    /// Takes the first node out of `chain`.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<Node> {
        let at = chain.head;
        let node = *self.nodes.get(at as usize)?;
        chain.head = node.next;
        if chain.head == NIL {
            chain.tail = NIL;
        }
        self.nodes[at as usize].next = self.free;
        self.free = at;
        self.used -= 1;
        Some(node)
    }

    /// The node at `at` and the index of the one behind it.
    pub(crate) fn peek(&self, at: u32) -> Option<(&Node, u32)> {
        self.nodes.get(at as usize).map(|node| (node, node.next))
    }

    /// Gives all nodes of `chain` back.
    pub(crate) fn clear(&mut self, chain: &mut Chain) {
        while self.pop(chain).is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_keep_their_order_and_the_pool_its_nodes() {
        let mut pool = Pool::new(4);
        let (mut a, mut b) = (Chain::EMPTY, Chain::EMPTY);
        for i in 0..2 {
            assert!(pool.push(&mut a, Node { rpt_seq: i, ..Node::default() }).is_some());
            assert!(pool.push(&mut b, Node { rpt_seq: 10 + i, ..Node::default() }).is_some());
        }
        assert!(pool.push(&mut a, Node::default()).is_none());
        assert_eq!(pool.used(), 4);
        assert_eq!(pool.pop(&mut a).map(|n| n.rpt_seq), Some(0));
        assert_eq!(pool.pop(&mut a).map(|n| n.rpt_seq), Some(1));
        assert!(a.is_empty() && pool.pop(&mut a).is_none());
        pool.clear(&mut b);
        assert_eq!(pool.used(), 0);
        for _ in 0..4 {
            assert!(pool.push(&mut a, Node::default()).is_some());
        }
        assert!(Pool::new(0).push(&mut b, Node::default()).is_none());
    }
}
