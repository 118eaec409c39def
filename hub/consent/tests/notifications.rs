//! Notifications on a real bus of their own, with a small desktop that keeps what it gets.
#![cfg(not(target_os = "macos"))]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tokio::sync::mpsc;
use zbus::zvariant::OwnedValue;

/// A bus that ends with the test.
struct Bus(Child);

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bus() -> (Bus, String) {
    let mut child = Command::new("dbus-daemon")
        .args(["--session", "--nofork", "--print-address"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("dbus-daemon is needed: apt-get install dbus-daemon");
    let mut address = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut address).unwrap();
    (Bus(child), address.trim().to_owned())
}

struct Desktop(mpsc::UnboundedSender<(String, String)>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl Desktop {
    #[expect(clippy::too_many_arguments, reason = "the interface is the desktop's")]
    fn notify(
        &self,
        _app: String,
        _replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedValue>,
        _timeout: i32,
    ) -> u32 {
        self.0.send((summary, body)).unwrap();
        1
    }
}

#[tokio::test]
async fn a_grant_is_announced_at_its_start_and_at_its_end_with_who_why_and_that_nobody_answered() {
    let (_bus, address) = bus();
    let (sender, mut shown) = mpsc::unbounded_channel();
    let desktop = zbus::connection::Builder::address(address.as_str()).unwrap();
    let desktop = desktop.serve_at("/org/freedesktop/Notifications", Desktop(sender)).unwrap();
    let _desktop = desktop.name("org.freedesktop.Notifications").unwrap().build().await.unwrap();

    let program =
        std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("notify");
    let sent = tokio::process::Command::new(program).env("DBUS_SESSION_BUS_ADDRESS", &address).status();
    let status = tokio::time::timeout(Duration::from_secs(20), sent).await.unwrap().unwrap();
    assert!(status.success());

    let (title, body) = shown.recv().await.unwrap();
    assert_eq!(title, "claude-code may use the browser path");
    assert!(body.starts_with("Nobody answered, and your rule allows it."), "{body}");
    assert!(
        body.contains("“Read &lt;b&gt;the&lt;/b&gt; invoices &amp; more.”"),
        "markup of the asker is no markup: {body}"
    );
    let (title, body) = shown.recv().await.unwrap();
    assert_eq!(title, "claude-code no longer uses the browser path");
    assert!(body.starts_with("You ended it. Calls: 3.") && body.contains("invoices"), "{body}");
}
