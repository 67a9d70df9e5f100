//! What one application may have, when several share an endpoint.
//!
//! A quota belongs to a protection domain. What is made with the domain is charged when it is made, for as much as it can ever
//! hold, and the sum of all quotas never passes the endpoint's limits. So a post never fails because of a neighbour, and
//! nothing is counted on the path of a request.

use crate::index::Index;
use crate::slab::Slab;
use crate::{Pd, VerbError};

/// What the owner of a protection domain may have at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Quota {
    /// Queue pairs.
    pub qps: u32,
    /// Send requests that its queue pairs have room for, in sum.
    pub sends: u32,
    /// Receive requests that its queue pairs and shared receive queues have room for, in sum.
    pub recvs: u32,
    /// Memory regions.
    pub regions: u32,
}

impl Quota {
    pub(crate) const REGION: Quota = Quota { qps: 0, sends: 0, recvs: 0, regions: 1 };

    pub(crate) const fn queue_pair(sends: u16, recvs: u32) -> Quota {
        Quota { qps: 1, sends: sends as u32, recvs, regions: 0 }
    }

    pub(crate) const fn recvs(recvs: u32) -> Quota {
        Quota { qps: 0, sends: 0, recvs, regions: 0 }
    }

    /// The sum, unless a part of it passes `limit`.
    fn plus(self, more: Quota, limit: Quota) -> Option<Quota> {
        let add = |a: u32, b: u32, max: u32| a.checked_add(b).filter(|sum| *sum <= max);
        Some(Quota {
            qps: add(self.qps, more.qps, limit.qps)?,
            sends: add(self.sends, more.sends, limit.sends)?,
            recvs: add(self.recvs, more.recvs, limit.recvs)?,
            regions: add(self.regions, more.regions, limit.regions)?,
        })
    }

    fn minus(self, less: Quota) -> Quota {
        Quota {
            qps: self.qps.saturating_sub(less.qps),
            sends: self.sends.saturating_sub(less.sends),
            recvs: self.recvs.saturating_sub(less.recvs),
            regions: self.regions.saturating_sub(less.regions),
        }
    }
}

#[derive(Clone, Copy, Default)]
struct Account {
    quota: Quota,
    used: Quota,
}

/// The accounts of all domains that have a quota.
pub(crate) struct Accounts {
    accounts: Slab<Account>,
    by_pd: Index,
    limit: Quota,
    promised: Quota,
}

impl Accounts {
    pub(crate) fn new(limit: Quota, salt: u64) -> Accounts {
        let accounts = Slab::new(limit.qps.max(1) as usize);
        Accounts { accounts, by_pd: Index::new(salt), limit, promised: Quota::default() }
    }

    /// Promises `quota` to a new domain.
    pub(crate) fn open(&mut self, pd: Pd, quota: Quota) -> Result<(), VerbError> {
        let promised = self.promised.plus(quota, self.limit).ok_or(VerbError::Limit)?;
        let id = self.accounts.take().ok_or(VerbError::Limit)?;
        if !self.by_pd.insert(u64::from(pd.0), id) {
            self.accounts.give(id);
            return Err(VerbError::Limit);
        }
        self.accounts[id] = Account { quota, used: Quota::default() };
        self.promised = promised;
        Ok(())
    }

    pub(crate) fn close(&mut self, pd: Pd) -> Result<(), VerbError> {
        let id = self.by_pd.get(u64::from(pd.0)).ok_or(VerbError::Unknown)?;
        let Account { quota, used } = self.accounts[id];
        if used != Quota::default() {
            return Err(VerbError::Busy);
        }
        self.promised = self.promised.minus(quota);
        self.by_pd.remove(u64::from(pd.0));
        self.accounts.give(id);
        Ok(())
    }

    fn of(&mut self, pd: Pd) -> Option<&mut Account> {
        if self.accounts.len() == 0 {
            return None;
        }
        let id = self.by_pd.get(u64::from(pd.0))?;
        self.accounts.get_mut(id)
    }

    /// Charges what is about to be made; a domain without a quota may have anything.
    #[inline]
    pub(crate) fn charge(&mut self, pd: Pd, what: Quota) -> Result<(), VerbError> {
        if let Some(account) = self.of(pd) {
            account.used = account.used.plus(what, account.quota).ok_or(VerbError::Limit)?;
        }
        Ok(())
    }

    /// Gives back what was charged.
    #[inline]
    pub(crate) fn refund(&mut self, pd: Pd, what: Quota) {
        if let Some(account) = self.of(pd) {
            account.used = account.used.minus(what);
        }
    }

    /// What a domain has.
    pub(crate) fn used(&self, pd: Pd) -> Option<Quota> {
        Some(self.accounts[self.by_pd.get(u64::from(pd.0))?].used)
    }
}
