//! `org.freedesktop.Notifications` on the session bus.

use std::collections::HashMap;
use std::time::Duration;

use zbus::zvariant::Value;

use crate::notify::Notice;

/// A desktop that does not answer is not waited for.
const LIMIT: Duration = Duration::from_secs(2);

/// The connection, made at the first notification and made again when it broke.
#[derive(Debug, Default)]
pub(crate) struct Desktop {
    bus: Option<zbus::Connection>,
}

impl Desktop {
    pub(crate) async fn show(&mut self, notice: &Notice) -> zbus::Result<()> {
        let sent = tokio::time::timeout(LIMIT, self.send(notice)).await;
        let sent = sent.unwrap_or_else(|_| Err(zbus::Error::Failure("the desktop does not answer".into())));
        if sent.is_err() {
            self.bus = None;
        }
        sent
    }

    async fn send(&mut self, notice: &Notice) -> zbus::Result<()> {
        if self.bus.is_none() {
            self.bus = Some(zbus::Connection::session().await?);
        }
        let Some(bus) = &self.bus else { return Ok(()) };
        let actions: [&str; 0] = [];
        let hints = HashMap::from([("urgency", Value::U8(1))]);
        // The body may be rendered as markup, and part of it is the asker's.
        let body = notice.body.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let arguments =
            ("Consentry", 0_u32, "", notice.title.as_str(), body.as_str(), &actions[..], hints, 8000_i32);
        bus.call_method(
            Some("org.freedesktop.Notifications"),
            "/org/freedesktop/Notifications",
            Some("org.freedesktop.Notifications"),
            "Notify",
            &arguments,
        )
        .await?;
        Ok(())
    }
}
