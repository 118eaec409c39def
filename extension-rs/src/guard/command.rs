//! DevTools commands: for a live grant, before they are sent and after.

use consentry_wire::cdp::Kind;
use consentry_wire::held::{self, Request};
use consentry_wire::{ErrorCode, Failure, GrantLabel};

use super::{Guard, Moment, fail};

/// A command that passed, for the check after its answer.
#[derive(Debug)]
pub(crate) struct Ticket {
    grant: GrantLabel,
    tab: u32,
    held: held::Ticket,
}

impl Ticket {
    /// What the command does.
    pub(crate) fn kind(&self) -> Kind {
        self.held.kind
    }
}

impl Guard {
    /// Whether a grant may send a command right now.
    pub(crate) fn may_send(
        &self,
        label: &GrantLabel,
        tab: u32,
        request: &Request<'_>,
        now: Moment,
    ) -> Result<Ticket, Failure> {
        self.scoped(label, now, |scope| {
            let Some(held) = self.tabs.get(&tab) else {
                return fail(ErrorCode::UnknownTab, format!("grant {label} holds no tab {tab}"));
            };
            Ok(Ticket { grant: label.clone(), tab, held: held.may_send(scope, request)? })
        })
    }

    /// Whether the answer to a command may still be given: the grant lives, holds the tab, and the document
    /// is the one that was checked.
    pub(crate) fn may_answer(&self, ticket: &Ticket, now: Moment) -> Result<(), Failure> {
        let held = self.tabs.get(&ticket.tab).filter(|held| held.holders.contains(&ticket.grant));
        match held {
            Some(held) if self.live(&ticket.grant, now).is_ok() => {
                held.may_answer(&ticket.grant, &ticket.held)
            }
            _ => {
                let message = format!("grant {} ended while the command ran", ticket.grant);
                Err(ticket.held.late(Failure::new(ErrorCode::GrantEnded, message)))
            }
        }
    }
}
