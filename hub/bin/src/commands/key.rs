//! `consentry key`

use std::process::ExitCode;

use clap::{Args, Subcommand};
use consentry_config::{Home, KeyStore, NewKey};
use consentry_gate::KeyName;
use consentry_wire::PathName;
use serde_json::json;

use crate::cli::{Output, say};
use crate::exit;
use crate::serve::Configuration;

/// Adds, lists, revokes and rotates keys
#[derive(Debug, Subcommand)]
pub(crate) enum Key {
    /// Makes a key and shows it once. It opens nothing before you click Allow in the dialog
    Add {
        /// Who will hold it: dialogs and the audit say so
        name: KeyName,
        /// Opens only this path, and may come through the tunnel: for a gateway
        #[arg(long)]
        path: Option<PathName>,
        #[command(flatten)]
        output: Output,
    },
    /// Lists the keys, never their values
    List(ListKeys),
    /// Takes a key away; its grants and calls end at once
    Revoke {
        /// Whose
        name: KeyName,
        #[command(flatten)]
        output: Output,
    },
    /// Makes a new key in place of an old one, whose grants end at once
    Rotate {
        /// Whose
        name: KeyName,
        #[command(flatten)]
        output: Output,
    },
}

/// Lists the keys
#[derive(Debug, Args)]
pub(crate) struct ListKeys {
    #[command(flatten)]
    output: Output,
}

impl Key {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        home.create()?;
        let store = KeyStore(home.keys());
        match self {
            Key::Add { name, path, output } => {
                path.as_ref().map_or(Ok(()), super::connect::built)?;
                show(&store.add(name, path)?, output);
            }
            Key::Rotate { name, output } => show(&store.rotate(name)?, output),
            Key::Revoke { name, output } => {
                store.revoke(&name)?;
                if output.json {
                    say(json!({ "revoked": name }))
                } else {
                    say(format!("Revoked {name}. A running hub ends its grants at once."))
                }
            }
            Key::List(ListKeys { output }) => {
                let keys = store.list()?;
                let ring = Configuration::load(&home).and_then(|configuration| configuration.keys(&home));
                let ring = ring.map(|ring| ring.0).unwrap_or_default();
                let approved = |name: &KeyName| ring.iter().any(|key| key.name == *name && key.approved);
                if output.json {
                    let rows = keys.iter().map(|(name, file)| {
                        json!({
                            "name": name, "path": file.path, "created": file.created, "approved": approved(name),
                        })
                    });
                    say(json!(rows.collect::<Vec<_>>()));
                } else if keys.is_empty() {
                    say(
                        "There are no keys. `consentry connect claude-code --apply` makes one, or `consentry key add NAME`.",
                    );
                } else {
                    for (name, file) in keys {
                        let opens = file.path.map_or_else(
                            || "every path, from this machine".to_owned(),
                            |path| format!("the {path} path"),
                        );
                        let waits = if approved(&name) { "" } else { "; not approved: it opens nothing yet" };
                        say(format!("{name}: {opens}, made {}{waits}", file.created));
                    }
                }
            }
        }
        Ok(exit::code(exit::OK))
    }
}

fn show(new: &NewKey, output: Output) {
    if output.json {
        say(json!({ "name": new.name, "key": new.secret, "path": new.file.path }));
    } else {
        say(format!(
            "{}\n\nThis is the key of {}; it is shown once. It opens nothing before you click in the dialog that a running hub shows.",
            new.secret, new.name
        ));
    }
}
