//! Stand-ins for the owner and the machine, for tests that are about something else. They exist in tests only.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use consentry_core::{
    Audit, AuditError, Clock, Dialog, DialogReport, KillSwitch, Memory, Notifier, Ports, Record, Weight,
};
use consentry_gate::{Answer, EndReason, GrantView, Moment, Now, Remembered, Shown};
use tokio_util::sync::CancellationToken;

/// Everything that a core needs, made of memory.
#[derive(Debug, Clone, Default)]
pub struct Fakes {
    /// The owner.
    pub owner: Arc<FakeOwner>,
    /// The audit.
    pub audit: Arc<FakeAudit>,
    /// The switch.
    pub switch: Arc<FakeSwitch>,
    /// What was notified.
    pub notifier: Arc<FakeNotifier>,
    /// What was kept.
    pub memory: Arc<FakeMemory>,
    /// The time.
    pub clock: Arc<FakeClock>,
}

impl Fakes {
    /// As the core wants them.
    pub fn ports(&self) -> Ports {
        Ports {
            clock: self.clock.clone(),
            dialog: self.owner.clone(),
            audit: self.audit.clone(),
            notifier: self.notifier.clone(),
            switch: self.switch.clone(),
            memory: self.memory.clone(),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An owner who answers what was scripted, and then leaves dialogs open until they are withdrawn.
#[derive(Debug, Default)]
pub struct FakeOwner {
    answers: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Shown>>,
    standing: AtomicU64,
    more: tokio::sync::Notify,
}

impl FakeOwner {
    /// Answers the next dialog so; also one that stands already.
    pub fn will(&self, answer: Answer) {
        lock(&self.answers).push_back(answer);
        self.more.notify_waiters();
    }

    /// The dialogs that were shown.
    pub fn seen(&self) -> Vec<Shown> {
        lock(&self.seen).clone()
    }

    /// How many dialogs stand right now.
    pub fn standing(&self) -> u64 {
        self.standing.load(Ordering::SeqCst)
    }
}

struct Standing<'a>(&'a AtomicU64);

impl Drop for Standing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Dialog for FakeOwner {
    async fn ask(&self, shown: Shown) -> DialogReport {
        lock(&self.seen).push(shown);
        self.standing.fetch_add(1, Ordering::SeqCst);
        let _standing = Standing(&self.standing);
        loop {
            let more = self.more.notified();
            tokio::pin!(more);
            more.as_mut().enable();
            if let Some(answer) = lock(&self.answers).pop_front() {
                return DialogReport { answer, notes: Vec::new() };
            }
            more.await;
        }
    }
}

/// An audit in memory that can be made to fail.
#[derive(Debug, Default)]
pub struct FakeAudit {
    lines: Mutex<Vec<Record>>,
    broken: AtomicBool,
    /// The kinds of lines that were written while this call was still allowed to run.
    while_running: Mutex<(Option<CancellationToken>, Vec<&'static str>)>,
}

impl FakeAudit {
    /// What was written.
    pub fn lines(&self) -> Vec<Record> {
        lock(&self.lines).clone()
    }

    /// The lines of one kind.
    pub fn of(&self, kind: &str) -> Vec<Record> {
        self.lines().into_iter().filter(|record| record.kind == kind).collect()
    }

    /// Notes from now on which lines are written before a call is cancelled.
    pub fn watch(&self, call: &CancellationToken) {
        *lock(&self.while_running) = (Some(call.clone()), Vec::new());
    }

    /// The kinds of those lines.
    pub fn while_running(&self) -> Vec<&'static str> {
        lock(&self.while_running).1.clone()
    }

    /// Makes it fail, or work again.
    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::SeqCst);
    }
}

impl Audit for FakeAudit {
    fn append(&self, record: Record, _weight: Weight) -> Result<u64, AuditError> {
        if self.broken.load(Ordering::SeqCst) {
            return Err(AuditError(Box::new(std::io::Error::from(std::io::ErrorKind::StorageFull))));
        }
        let mut watched = lock(&self.while_running);
        if watched.0.as_ref().is_some_and(|call| !call.is_cancelled()) {
            watched.1.push(record.kind);
        }
        let mut lines = lock(&self.lines);
        lines.push(record);
        Ok(lines.len() as u64)
    }
}

/// A switch in memory.
#[derive(Debug, Default)]
pub struct FakeSwitch(AtomicBool);

impl FakeSwitch {
    /// As if somebody had used `touch` or `rm`.
    pub fn set(&self, disabled: bool) {
        self.0.store(disabled, Ordering::SeqCst);
    }
}

impl KillSwitch for FakeSwitch {
    fn disabled(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
    fn disable(&self) -> std::io::Result<()> {
        self.set(true);
        Ok(())
    }
    fn enable(&self) -> std::io::Result<()> {
        self.set(false);
        Ok(())
    }
}

/// Keeps what was notified.
#[derive(Debug, Default)]
pub struct FakeNotifier(Mutex<Vec<String>>);

impl FakeNotifier {
    /// One line for each notification.
    pub fn seen(&self) -> Vec<String> {
        lock(&self.0).clone()
    }
}

impl Notifier for FakeNotifier {
    fn started(&self, grant: &GrantView) {
        lock(&self.0).push(format!("started {} {:?}", grant.path, grant.decision));
    }
    fn ended(&self, grant: &GrantView, reason: EndReason) {
        lock(&self.0).push(format!("ended {} {reason:?}", grant.path));
    }
}

/// Keeps what was kept.
#[derive(Debug, Default)]
pub struct FakeMemory(Mutex<Vec<Remembered>>);

impl FakeMemory {
    /// The sites as they were last kept.
    pub fn kept(&self) -> Vec<Remembered> {
        lock(&self.0).clone()
    }
}

impl Memory for FakeMemory {
    fn keep(&self, sites: &[Remembered]) -> std::io::Result<()> {
        *lock(&self.0) = sites.to_vec();
        Ok(())
    }
}

/// Follows tokio's clock, so that a test on paused time controls it, and can be put forward as by suspend.
#[derive(Debug)]
pub struct FakeClock {
    start: tokio::time::Instant,
    slept: AtomicU64,
}

impl Default for FakeClock {
    fn default() -> Self {
        Self { start: tokio::time::Instant::now(), slept: AtomicU64::new(0) }
    }
}

impl FakeClock {
    /// As if the machine had slept so long.
    pub fn sleep(&self, milliseconds: u64) {
        self.slept.fetch_add(milliseconds, Ordering::SeqCst);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Now {
        let awake = u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now { moment: Moment(awake + self.slept.load(Ordering::SeqCst)), minute_of_day: 720 }
    }
}
