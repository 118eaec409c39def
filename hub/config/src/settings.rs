//! `config.toml`: one typed structure, taken whole or not at all.

use std::collections::BTreeMap;
use std::time::Duration;

use consentry_gate::{Hours, KeyName, OnTimeout, PathRules, Rules, SiteRule, Switch};
use consentry_wire::PathName;
use consentry_wire::forbidden::HubPorts;
use serde::{Deserialize, Serialize};
use toml::Spanned;

/// The ports, unless setup chose others.
const DEFAULT_PORTS: HubPorts = HubPorts { mcp: 7311, control: 7312 };

/// Why a configuration is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there, and what is allowed.
    pub what: String,
}

/// Everything that the owner sets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The machine's name, as dialogs show it.
    pub machine: String,
    /// The two ports.
    pub ports: HubPorts,
    /// The host name under which a tunnel reaches the MCP port.
    pub tunnel_host: Option<String>,
    /// The paths, enabled or not.
    pub paths: BTreeMap<PathName, PathSettings>,
}

/// One path's settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathSettings {
    /// Whether it exists at all.
    pub enabled: bool,
    /// Its rules.
    pub rules: PathRules,
}

/// What an unanswered request means, as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutRule {
    /// Denied.
    Deny,
    /// Allowed.
    Allow,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    machine: Option<Spanned<String>>,
    ports: Option<RawPorts>,
    tunnel: Option<RawTunnel>,
    #[serde(default)]
    paths: BTreeMap<Spanned<String>, RawPath>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPorts {
    mcp: Option<Spanned<u16>>,
    control: Option<Spanned<u16>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTunnel {
    hostname: Option<Spanned<String>>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPath {
    enabled: Option<bool>,
    minutes: Option<Spanned<u16>>,
    max_minutes: Option<Spanned<u16>>,
    idle_minutes: Option<Spanned<u16>>,
    grants: Option<Spanned<u8>>,
    window_seconds: Option<Spanned<u16>>,
    on_timeout: Option<TimeoutRule>,
    on_timeout_keys: Option<Vec<Spanned<String>>>,
    on_timeout_hours: Option<Spanned<String>>,
    cooldown_seconds: Option<Spanned<u16>>,
    sites: Option<SiteRule>,
    evaluate: Option<Switch>,
    changes: Option<Changes>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Changes {
    Ask,
    Off,
}

impl Settings {
    /// What holds where nothing is written: the browser path, with every default.
    pub fn defaults(machine: &str) -> Self {
        let browser = PathSettings { enabled: true, rules: default_rules(&PathName::browser()) };
        Self {
            machine: machine.to_owned(),
            ports: DEFAULT_PORTS,
            tunnel_host: None,
            paths: BTreeMap::from([(PathName::browser(), browser)]),
        }
    }

    /// Reads a configuration. `supported` are the paths that this build has.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and what is allowed.
    pub fn parse(text: &str, machine: &str, supported: &[PathName]) -> Result<Self, ConfigError> {
        let raw: Raw = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            ConfigError { line: line_of(text, at), what: error.message().replace('\n', " ") }
        })?;
        Reader { text }.settings(raw, machine, supported)
    }

    /// Lays the machine's policy over it: what the policy names, holds.
    ///
    /// # Errors
    /// What is wrong with the policy.
    pub fn under_policy(
        text: &str,
        policy: &str,
        machine: &str,
        supported: &[PathName],
    ) -> Result<Self, ConfigError> {
        Self::parse(policy, machine, supported)?;
        let table = |text: &str| toml::from_str::<toml::Table>(text).unwrap_or_default();
        let mut merged = table(text);
        overlay(&mut merged, table(policy));
        let merged = toml::to_string(&merged).unwrap_or_default();
        Self::parse(&merged, machine, supported)
    }

    /// The rules of the enabled paths.
    pub fn rules(&self) -> Rules {
        let enabled = self.paths.iter().filter(|(_, path)| path.enabled);
        Rules { paths: enabled.map(|(name, path)| (name.clone(), path.rules.clone())).collect() }
    }

    /// As a file: every setting, also those that have their default.
    pub fn to_toml(&self) -> String {
        let mut out = format!("machine = {}\n", quoted(&self.machine));
        out.push_str(&format!("\n[ports]\nmcp = {}\ncontrol = {}\n", self.ports.mcp, self.ports.control));
        if let Some(host) = &self.tunnel_host {
            out.push_str(&format!("\n[tunnel]\nhostname = {}\n", quoted(host)));
        }
        for (name, path) in &self.paths {
            let rules = &path.rules;
            out.push_str(&format!(
                "\n[paths.{name}]\nenabled = {}\nminutes = {}\nmax_minutes = {}\nidle_minutes = {}\ngrants = {}\n\
                 window_seconds = {}\ncooldown_seconds = {}\nsites = \"{}\"\nchanges = \"{}\"\n",
                path.enabled,
                rules.minutes,
                rules.max_minutes,
                rules.idle.as_secs() / 60,
                rules.max_grants,
                rules.window.as_secs(),
                rules.cooldown.as_secs(),
                if rules.sites == SiteRule::Any { "any" } else { "ask" },
                if rules.ask_changes { "ask" } else { "off" },
            ));
            if let Some(switch) = rules.switches.get(EVALUATE) {
                out.push_str(&format!("evaluate = \"{}\"\n", switch_word(*switch)));
            }
            if let OnTimeout::Allow { keys, hours } = &rules.on_timeout {
                out.push_str("on_timeout = \"allow\"\n");
                if let Some(keys) = keys {
                    let keys: Vec<String> = keys.iter().map(|key| quoted(key.as_str())).collect();
                    out.push_str(&format!("on_timeout_keys = [{}]\n", keys.join(", ")));
                }
                if let Some(hours) = hours {
                    out.push_str(&format!("on_timeout_hours = \"{}\"\n", hours_text(*hours)));
                }
            }
        }
        out
    }
}

/// The tool that the switch `evaluate` is about.
pub(crate) const EVALUATE: &str = "evaluate_script";

fn default_rules(path: &PathName) -> PathRules {
    let mut rules = PathRules::default();
    match path.as_str() {
        "browser" => {
            rules.switches.insert(EVALUATE.to_owned(), Switch::Ask);
        }
        "computer" => {
            rules.foreground = true;
            rules.ask_changes = true;
        }
        _ => {}
    }
    rules
}

pub(crate) fn switch_word(switch: Switch) -> &'static str {
    match switch {
        Switch::Off => "off",
        Switch::Ask => "ask",
        Switch::On => "on",
    }
}

pub(crate) fn hours_text(hours: Hours) -> String {
    format!("{:02}:{:02}-{:02}:{:02}", hours.from / 60, hours.from % 60, hours.to / 60, hours.to % 60)
}

fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn overlay(under: &mut toml::Table, over: toml::Table) {
    for (name, value) in over {
        match (under.get_mut(&name), value) {
            (Some(toml::Value::Table(under)), toml::Value::Table(over)) => overlay(under, over),
            (_, value) => {
                under.insert(name, value);
            }
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1
}

/// Turns what was written into what holds, knowing where it was written.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, at: usize, what: impl Into<String>) -> ConfigError {
        ConfigError { line: line_of(self.text, at), what: what.into() }
    }

    fn range<T>(
        &self,
        name: &str,
        value: Option<Spanned<T>>,
        range: std::ops::RangeInclusive<T>,
    ) -> Result<Option<T>, ConfigError>
    where
        T: PartialOrd + std::fmt::Display + Copy,
    {
        let Some(value) = value else { return Ok(None) };
        let at = value.span().start;
        let value = value.into_inner();
        if range.contains(&value) {
            return Ok(Some(value));
        }
        Err(self.error(at, format!("{name} is {value}; allowed is {} to {}", range.start(), range.end())))
    }

    fn settings(&self, raw: Raw, machine: &str, supported: &[PathName]) -> Result<Settings, ConfigError> {
        let mut settings = Settings::defaults(machine);
        if let Some(machine) = raw.machine {
            let at = machine.span().start;
            let name = consentry_gate::clean(machine.get_ref());
            if name.is_empty() || name.chars().count() > 60 {
                return Err(self.error(at, "machine is empty or too long; allowed are 1 to 60 characters"));
            }
            settings.machine = name;
        }
        if let Some(ports) = raw.ports {
            let at = ports.control.as_ref().or(ports.mcp.as_ref()).map_or(0, |port| port.span().start);
            let range = 1024..=u16::MAX;
            settings.ports.mcp = self.range("mcp", ports.mcp, range.clone())?.unwrap_or(DEFAULT_PORTS.mcp);
            settings.ports.control =
                self.range("control", ports.control, range)?.unwrap_or(DEFAULT_PORTS.control);
            if settings.ports.mcp == settings.ports.control {
                return Err(
                    self.error(at, "mcp and control are the same port; the tunnel may only ever reach mcp")
                );
            }
        }
        if let Some(host) = raw.tunnel.and_then(|tunnel| tunnel.hostname) {
            let at = host.span().start;
            let host = host.into_inner();
            let fits = host.contains('.')
                && host.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
                && url::Host::parse(&host).is_ok_and(|host| matches!(host, url::Host::Domain(_)));
            if !fits {
                return Err(self.error(
                    at,
                    format!("hostname is {host:?}; allowed is a host name such as mac.example.com"),
                ));
            }
            settings.tunnel_host = Some(host.to_ascii_lowercase());
        }
        for (name, raw) in raw.paths {
            let at = name.span().start;
            let name = name.into_inner();
            let known = name.parse::<PathName>().ok().filter(|name| supported.contains(name));
            let Some(path) = known else {
                let names: Vec<&str> = supported.iter().map(PathName::as_str).collect();
                return Err(
                    self.error(at, format!("there is no path {name:?}; allowed is {}", names.join(", ")))
                );
            };
            let rules = self.path(raw, &path)?;
            settings.paths.insert(path, rules);
        }
        Ok(settings)
    }

    fn path(&self, raw: RawPath, path: &PathName) -> Result<PathSettings, ConfigError> {
        let mut rules = default_rules(path);
        let minutes_at = raw.minutes.as_ref().map_or(0, |minutes| minutes.span().start);
        rules.max_minutes =
            self.range("max_minutes", raw.max_minutes, PathRules::MINUTES)?.unwrap_or(rules.max_minutes);
        let minutes = self.range("minutes", raw.minutes, PathRules::MINUTES)?;
        if minutes.is_some_and(|minutes| minutes > rules.max_minutes) {
            return Err(
                self.error(minutes_at, format!("minutes is more than max_minutes, {}", rules.max_minutes))
            );
        }
        rules.minutes = minutes.unwrap_or(rules.minutes.min(rules.max_minutes));
        if let Some(minutes) = self.range("idle_minutes", raw.idle_minutes, 1..=120)? {
            rules.idle = Duration::from_secs(u64::from(minutes) * 60);
        }
        rules.max_grants = self.range("grants", raw.grants, PathRules::GRANTS)?.unwrap_or(rules.max_grants);
        if let Some(seconds) = self.range("window_seconds", raw.window_seconds, PathRules::WINDOW_SECONDS)? {
            rules.window = Duration::from_secs(u64::from(seconds));
        }
        if let Some(seconds) = self.range("cooldown_seconds", raw.cooldown_seconds, 0..=3600)? {
            rules.cooldown = Duration::from_secs(u64::from(seconds));
        }
        let restricted =
            raw.on_timeout_keys.as_ref().and_then(|keys| keys.first()).map(|key| key.span().start);
        let restricted = restricted.or_else(|| raw.on_timeout_hours.as_ref().map(|hours| hours.span().start));
        let keys = raw.on_timeout_keys.map(|keys| self.keys(keys)).transpose()?;
        let hours = raw.on_timeout_hours.map(|hours| self.hours(&hours)).transpose()?;
        match raw.on_timeout {
            Some(TimeoutRule::Allow) => rules.on_timeout = OnTimeout::Allow { keys, hours },
            Some(TimeoutRule::Deny) | None => {
                if let Some(at) = restricted {
                    return Err(self.error(at, "this restricts on_timeout = \"allow\", which is not set"));
                }
            }
        }
        rules.sites = raw.sites.unwrap_or(rules.sites);
        if let Some(switch) = raw.evaluate {
            rules.switches.insert(EVALUATE.to_owned(), switch);
        }
        if let Some(changes) = raw.changes {
            rules.ask_changes = changes == Changes::Ask;
        }
        Ok(PathSettings { enabled: raw.enabled.unwrap_or(*path == PathName::browser()), rules })
    }

    fn keys(&self, keys: Vec<Spanned<String>>) -> Result<Vec<KeyName>, ConfigError> {
        let read = |key: Spanned<String>| {
            key.get_ref()
                .parse()
                .map_err(|error| self.error(key.span().start, format!("{:?}: {error}", key.get_ref())))
        };
        keys.into_iter().map(read).collect()
    }

    fn hours(&self, hours: &Spanned<String>) -> Result<Hours, ConfigError> {
        let time = |text: &str| {
            let (hour, minute) = text.trim().split_once(':')?;
            let (hour, minute): (u16, u16) = (hour.parse().ok()?, minute.parse().ok()?);
            (hour < 24 && minute < 60).then_some(hour * 60 + minute)
        };
        let text = hours.get_ref();
        let read =
            text.split_once('-').and_then(|(from, to)| Some(Hours { from: time(from)?, to: time(to)? }));
        read.ok_or_else(|| {
            let what = format!("on_timeout_hours is {text:?}; allowed is a span such as \"22:00-06:00\"");
            self.error(hours.span().start, what)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, ConfigError> {
        Settings::parse(text, "desk", &[PathName::browser(), "shell".parse().unwrap()])
    }

    #[test]
    fn nothing_written_is_every_default() {
        let settings = parse("").unwrap();
        assert_eq!(settings, Settings::defaults("desk"));
        assert_eq!(settings.rules().paths[&PathName::browser()].window, Duration::from_secs(10));
    }

    #[test]
    fn what_was_written_reads_back() {
        let text = r#"
            machine = "Ada's desk"
            [ports]
            mcp = 8001
            control = 8002
            [tunnel]
            hostname = "mac.example.com"
            [paths.browser]
            minutes = 5
            on_timeout = "allow"
            on_timeout_keys = ["phone"]
            on_timeout_hours = "22:00-06:00"
            sites = "any"
            evaluate = "off"
            changes = "ask"
            [paths.shell]
            enabled = true
        "#;
        let settings = parse(text).unwrap();
        assert_eq!(parse(&settings.to_toml()).unwrap(), settings);
        assert_eq!(settings.rules().paths.len(), 2);
    }

    #[test]
    fn what_is_wrong_is_refused_with_its_line_and_what_is_allowed() {
        for (text, line, words) in [
            ("machine = \"x\"\ncolour = 1\n", 2, "unknown field `colour`, expected one of"),
            ("[paths.browser]\nwindow_seconds = 2\n", 2, "window_seconds is 2; allowed is 3 to 120"),
            ("[paths.browser]\n\nminutes = 500\n", 3, "allowed is 1 to 120"),
            ("[paths.browser]\non_timeout = \"maybe\"\n", 2, "expected `deny` or `allow`"),
            ("[paths.browser]\nsites = \"none\"\n", 2, "expected `ask` or `any`"),
            ("\n[paths.toaster]\n", 2, "allowed is browser, shell"),
            ("[ports]\nmcp = 80\n", 2, "allowed is 1024 to 65535"),
            ("[ports]\nmcp = 7000\ncontrol = 7000\n", 3, "the same port"),
            ("[tunnel]\nhostname = \"127.0.0.1\"\n", 2, "a host name such as"),
            ("[paths.browser]\non_timeout_hours = \"22-6\"\n", 2, "22:00-06:00"),
            ("[paths.browser]\non_timeout_keys = [\"phone\"]\n", 2, "restricts on_timeout"),
            ("[paths.browser]\nmax_minutes = 10\nminutes = 20\n", 3, "more than max_minutes"),
            ("machine = \n", 1, "value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.line == line && error.what.contains(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn the_machines_policy_holds_over_what_the_owner_wrote() {
        let own = "[paths.browser]\nsites = \"any\"\nminutes = 5\n[paths.shell]\nenabled = true\n";
        let policy = "[paths.browser]\nsites = \"ask\"\n[paths.shell]\nenabled = false\n";
        let supported = [PathName::browser(), "shell".parse().unwrap()];
        let settings = Settings::under_policy(own, policy, "desk", &supported).unwrap();
        let rules = settings.rules();
        assert_eq!(rules.paths.len(), 1);
        let browser = &rules.paths[&PathName::browser()];
        assert_eq!((browser.sites, browser.minutes), (SiteRule::Ask, 5));
        assert!(Settings::under_policy(own, "x = 1\n", "desk", &supported).is_err());
    }
}
