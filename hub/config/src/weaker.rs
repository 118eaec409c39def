//! What became weaker, in words, and the stricter of two settings.

use std::collections::BTreeMap;

use consentry_gate::{OnTimeout, PathRules, SiteRule, Switch};

use crate::settings::{PathSettings, Settings, hours_text, switch_word};

/// One setting that is weaker than what the owner approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Weakening(pub String);

impl Settings {
    /// What is weaker here than in what the owner approved.
    pub fn weaker_than(&self, approved: &Settings) -> Vec<Weakening> {
        let mut found = Vec::new();
        for (name, path) in &self.paths {
            let strict = PathSettings::default();
            let was = approved.paths.get(name).unwrap_or(&strict);
            let mut say = |what: String| found.push(Weakening(format!("{name}: {what}")));
            if path.enabled && !was.enabled {
                say("the path is enabled".into());
            }
            if path.enabled {
                compare(&path.rules, &was.rules, &mut say);
            }
        }
        if let Some(host) = &self.tunnel_host
            && approved.tunnel_host.as_ref() != Some(host)
        {
            found.push(Weakening(format!("a tunnel reaches the paths as {host}")));
        }
        found
    }

    /// The stricter of this and what the owner approved, setting by setting: holds until the owner has clicked.
    #[must_use]
    pub fn tighten(&self, approved: &Settings) -> Settings {
        let paths = self.paths.iter().map(|(name, path)| {
            let strict = PathSettings::default();
            let was = approved.paths.get(name).unwrap_or(&strict);
            let rules = if was.enabled { stricter(&path.rules, &was.rules) } else { path.rules.clone() };
            (name.clone(), PathSettings { enabled: path.enabled && was.enabled, rules })
        });
        let tunnel_host = self.tunnel_host.clone().filter(|host| approved.tunnel_host.as_ref() == Some(host));
        Settings { paths: paths.collect::<BTreeMap<_, _>>(), tunnel_host, ..self.clone() }
    }

    /// What is looser here than the defaults: shown in red on the status page.
    pub fn looser_than_default(&self) -> Vec<Weakening> {
        let mut defaults = Settings::defaults(&self.machine);
        for (name, path) in &self.paths {
            let rules = defaults.paths.get(name).map(|path| path.rules.clone()).unwrap_or_default();
            // That the owner enabled a path is no loosening of its rules.
            defaults.paths.insert(name.clone(), PathSettings { enabled: path.enabled, rules });
        }
        defaults.tunnel_host.clone_from(&self.tunnel_host);
        self.weaker_than(&defaults)
    }
}

fn compare(new: &PathRules, old: &PathRules, say: &mut impl FnMut(String)) {
    if new.max_minutes > old.max_minutes {
        say(format!("a caller may ask for {} minutes instead of {}", new.max_minutes, old.max_minutes));
    }
    if new.minutes > old.minutes {
        say(format!("a grant lives {} minutes instead of {}", new.minutes, old.minutes));
    }
    if new.idle > old.idle {
        say(format!(
            "an unused grant ends after {} minutes instead of {}",
            new.idle.as_secs() / 60,
            old.idle.as_secs() / 60
        ));
    }
    if new.max_grants > old.max_grants {
        say(format!("{} grants may live at once instead of {}", new.max_grants, old.max_grants));
    }
    let veto = matches!(new.on_timeout, OnTimeout::Allow { .. });
    if new.window > old.window || (veto && new.window < old.window) {
        say(format!("the dialog stands {} s instead of {} s", new.window.as_secs(), old.window.as_secs()));
    }
    if new.cooldown < old.cooldown {
        say(format!(
            "a path cools down for {} s instead of {} s",
            new.cooldown.as_secs(),
            old.cooldown.as_secs()
        ));
    }
    if !silence_is_stricter(&new.on_timeout, &old.on_timeout) {
        say(format!("nobody answering means allowed{}", restrictions(&new.on_timeout)));
    }
    if new.sites == SiteRule::Any && old.sites == SiteRule::Ask {
        say("every site may be touched without asking".into());
    }
    for (tool, switch) in &new.switches {
        let was = old.switches.get(tool).copied().unwrap_or(Switch::Off);
        if looseness(*switch) > looseness(was) {
            say(format!("{tool} is {} instead of {}", switch_word(*switch), switch_word(was)));
        }
    }
    if old.ask_changes && !new.ask_changes {
        say("calls that change something are no longer asked about".into());
    }
}

fn stricter(new: &PathRules, old: &PathRules) -> PathRules {
    let mut rules = new.clone();
    rules.max_minutes = new.max_minutes.min(old.max_minutes);
    rules.minutes = new.minutes.min(old.minutes).min(rules.max_minutes);
    rules.idle = new.idle.min(old.idle);
    rules.max_grants = new.max_grants.min(old.max_grants);
    rules.cooldown = new.cooldown.max(old.cooldown);
    if !silence_is_stricter(&new.on_timeout, &old.on_timeout) {
        rules.on_timeout =
            if matches!(old.on_timeout, OnTimeout::Deny) { OnTimeout::Deny } else { old.on_timeout.clone() };
    }
    let veto = matches!(rules.on_timeout, OnTimeout::Allow { .. });
    rules.window = if veto { old.window } else { new.window.min(old.window) };
    if old.sites == SiteRule::Ask {
        rules.sites = SiteRule::Ask;
    }
    for (tool, switch) in &mut rules.switches {
        let was = old.switches.get(tool).copied().unwrap_or(Switch::Off);
        if looseness(*switch) > looseness(was) {
            *switch = was;
        }
    }
    rules.ask_changes = new.ask_changes || old.ask_changes;
    rules
}

/// Whether everything that the new rule allows was allowed by the old one.
fn silence_is_stricter(new: &OnTimeout, old: &OnTimeout) -> bool {
    match (new, old) {
        (OnTimeout::Deny, _) => true,
        (OnTimeout::Allow { .. }, OnTimeout::Deny) => false,
        (OnTimeout::Allow { keys, hours }, OnTimeout::Allow { keys: old_keys, hours: old_hours }) => {
            let keys_fit = match (keys, old_keys) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(keys), Some(old)) => keys.iter().all(|key| old.contains(key)),
            };
            keys_fit && (old_hours.is_none() || hours == old_hours)
        }
    }
}

fn restrictions(rule: &OnTimeout) -> String {
    let OnTimeout::Allow { keys, hours } = rule else { return String::new() };
    let keys = keys.as_ref().map(|keys| {
        let names: Vec<&str> = keys.iter().map(consentry_gate::KeyName::as_str).collect();
        format!(" for {}", names.join(", "))
    });
    let hours = hours.map(|hours| format!(" at {}", hours_text(hours)));
    keys.unwrap_or_default() + &hours.unwrap_or_default()
}

fn looseness(switch: Switch) -> u8 {
    match switch {
        Switch::Off => 0,
        Switch::Ask => 1,
        Switch::On => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use consentry_wire::PathName;

    fn settings(text: &str) -> Settings {
        Settings::parse(text, "desk", &[PathName::browser(), "shell".parse().unwrap()]).unwrap()
    }

    #[test]
    fn each_weakening_is_said_and_does_not_hold_before_the_click() {
        let approved = settings("");
        for (line, words) in [
            ("max_minutes = 120\nminutes = 60", "lives 60 minutes"),
            ("idle_minutes = 60", "after 60 minutes"),
            ("grants = 8", "8 grants"),
            ("window_seconds = 60", "60 s"),
            ("cooldown_seconds = 0", "cools down for 0 s"),
            ("on_timeout = \"allow\"", "nobody answering means allowed"),
            ("sites = \"any\"", "every site"),
            ("evaluate = \"on\"", "evaluate_script is on"),
        ] {
            let new = settings(&format!("[paths.browser]\n{line}\n"));
            let found = new.weaker_than(&approved);
            assert!(found.iter().any(|w| w.0.contains(words)), "{line}: {found:?}");
            let holds = new.tighten(&approved);
            assert_eq!(holds.weaker_than(&approved), [], "{line}");
            assert_eq!(new.weaker_than(&new), [], "{line}");
        }
        let shell = settings("[paths.shell]\nenabled = true\n");
        assert_eq!(shell.weaker_than(&approved)[0].0, "shell: the path is enabled");
        assert!(!shell.tighten(&approved).rules().paths.contains_key(&"shell".parse().unwrap()));
        let tunnel = settings("[tunnel]\nhostname = \"mac.example.com\"\n");
        assert_eq!(tunnel.tighten(&approved).tunnel_host, None);
    }

    #[test]
    fn what_is_stricter_needs_no_click_and_holds_at_once() {
        let approved = settings("");
        let new = settings(
            "[paths.browser]\nminutes = 5\nmax_minutes = 5\nevaluate = \"off\"\nchanges = \"ask\"\nwindow_seconds = 5\n",
        );
        assert_eq!(new.weaker_than(&approved), []);
        assert_eq!(new.tighten(&approved), new);
    }

    #[test]
    fn a_veto_window_that_holds_for_more_keys_or_hours_is_weaker() {
        let some = settings("[paths.browser]\non_timeout = \"allow\"\non_timeout_keys = [\"phone\"]\n");
        let all = settings("[paths.browser]\non_timeout = \"allow\"\n");
        assert!(!all.weaker_than(&some).is_empty());
        assert!(some.weaker_than(&all).is_empty());
        assert_eq!(all.tighten(&some), some);
        let faster = settings("[paths.browser]\non_timeout = \"allow\"\nwindow_seconds = 3\n");
        assert!(!faster.weaker_than(&all).is_empty(), "a shorter veto window leaves less time to say no");
        assert_eq!(faster.tighten(&all), all);
    }
}
