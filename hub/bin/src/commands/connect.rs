//! `consentry connect`

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use consentry_config::{Home, KeyStore, Settings, env, write_private};
use consentry_wire::PathName;
use serde_json::{Value, json};

use crate::cli::{Output, say};
use crate::exit;

/// Shows or does what an agent's program needs in order to reach the hub
#[derive(Debug, Args)]
pub(crate) struct Connect {
    /// Which program
    #[arg(value_enum)]
    client: Client,
    /// Which path
    #[arg(long, default_value = "browser")]
    path: PathName,
    /// Does it instead of showing it
    #[arg(long)]
    apply: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
}

/// What has to be done for a client.
enum Recipe {
    /// A command of its own does it.
    Run(Vec<String>),
    /// Its configuration file gets this entry below these keys.
    Json { file: PathBuf, below: &'static str, entry: Value },
    /// Its configuration file gets this table.
    Toml { file: PathBuf, table: toml::Table },
}

/// What stands where the key will be, as long as nothing is done.
const KEY_HERE: &str = "<key>";

impl Connect {
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let home = Home::from_env()?;
        home.create()?;
        built(&self.path)?;
        let port = mcp_port(&home)?;
        let name =
            self.client.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        if !self.apply {
            let recipe = self.recipe(port, KEY_HERE)?;
            if self.output.json {
                say(recipe.as_json())
            } else {
                say(recipe.in_words(&name))
            }
            return Ok(exit::code(exit::OK));
        }
        // Whatever can fail fails before the old key is replaced: a client that works keeps working.
        self.recipe(port, KEY_HERE)?
            .prepare()
            .with_context(|| format!("{name} is not connected, and nothing was changed"))?;
        let store = KeyStore(home.keys());
        let key_name: consentry_gate::KeyName = name.parse()?;
        let exists = store.list()?.iter().any(|(known, _)| *known == key_name);
        // The old value is known to nobody any more, so connecting again makes a new one.
        let new = if exists { store.rotate(key_name)? } else { store.add(key_name, None)? };
        let recipe = self.recipe(port, &new.secret)?;
        recipe.apply().with_context(|| {
            format!("{name} is not connected; the key {} was made and can be revoked", new.name)
        })?;
        let what = format!(
            "{name} is connected to the {} path with a key of its own. Click Allow in the dialog that the hub shows for the new key.",
            self.path
        );
        if self.output.json {
            say(json!({ "connected": name, "path": self.path, "key": new.name }))
        } else {
            say(what)
        }
        Ok(exit::code(exit::OK))
    }

    fn recipe(&self, port: u16, key: &str) -> anyhow::Result<Recipe> {
        let server = format!("consentry-{}", self.path);
        let url = format!("http://127.0.0.1:{port}/{}/mcp", self.path);
        let bearer = format!("Bearer {key}");
        let by_http = json!({ "type": "http", "url": url, "headers": { "Authorization": bearer } });
        let user = user_home()?;
        Ok(match self.client {
            Client::ClaudeCode => {
                let header = format!("Authorization: {bearer}");
                let words = [
                    "claude",
                    "mcp",
                    "add",
                    "--transport",
                    "http",
                    "--scope",
                    "user",
                    &server,
                    &url,
                    "--header",
                    &header,
                ];
                Recipe::Run(words.iter().map(|word| (*word).to_owned()).collect())
            }
            Client::ClaudeDesktop => {
                let own = std::env::current_exe().context("cannot tell where this program lies")?;
                let below = if cfg!(target_os = "macos") {
                    "Library/Application Support/Claude"
                } else {
                    ".config/Claude"
                };
                Recipe::Json {
                    file: user.join(below).join("claude_desktop_config.json"),
                    below: "mcpServers",
                    entry: json!({ &server: { "command": own, "args": ["stdio", self.path], "env": environment(key) } }),
                }
            }
            Client::Cursor => Recipe::Json {
                file: user.join(".cursor/mcp.json"),
                below: "mcpServers",
                entry: json!({ &server: by_http }),
            },
            Client::Vscode => {
                let below = if cfg!(target_os = "macos") {
                    "Library/Application Support/Code/User"
                } else {
                    ".config/Code/User"
                };
                Recipe::Json {
                    file: user.join(below).join("mcp.json"),
                    below: "servers",
                    entry: json!({ &server: by_http }),
                }
            }
            Client::Codex => {
                let own = std::env::current_exe().context("cannot tell where this program lies")?;
                let entry = json!({ "command": own, "args": ["stdio", self.path], "env": environment(key) });
                let table = json!({ "mcp_servers": { &server: entry } });
                Recipe::Toml { file: user.join(".codex/config.toml"), table: toml::Table::try_from(table)? }
            }
        })
    }
}

impl Recipe {
    fn as_json(&self) -> Value {
        match self {
            Recipe::Run(words) => json!({ "run": words }),
            Recipe::Json { file, below, entry } => json!({ "file": file, "merge": { *below: entry } }),
            Recipe::Toml { file, table } => json!({ "file": file, "merge": table }),
        }
    }

    fn in_words(&self, name: &str) -> String {
        let does = format!("`consentry connect {name} --apply` does this, with a key of its own:");
        match self {
            Recipe::Run(words) => {
                let quoted: Vec<String> = words
                    .iter()
                    .map(|word| if word.contains(' ') { format!("'{word}'") } else { word.clone() })
                    .collect();
                format!("{does}\n\n  {}", quoted.join(" "))
            }
            Recipe::Json { file, below, entry } => {
                let text = serde_json::to_string_pretty(&json!({ *below: entry })).unwrap_or_default();
                format!("{does}\n\nMerge into {}:\n{text}", file.display())
            }
            Recipe::Toml { file, table } => format!("{does}\n\nMerge into {}:\n{table}", file.display()),
        }
    }

    /// Everything of [`Recipe::apply`] that can go wrong, without doing it. Gives what is to be written where.
    fn prepare(&self) -> anyhow::Result<Option<(&Path, String)>> {
        match self {
            Recipe::Run(words) => {
                let program = words.first().context("nothing to run")?;
                Command::new(program)
                    .arg("--version")
                    .output()
                    .with_context(|| format!("cannot run {program}: is it installed?"))?;
                Ok(None)
            }
            Recipe::Json { file, below, entry } => {
                let old = read_or_empty(file)?;
                let mut whole: Value = if old.trim().is_empty() {
                    json!({})
                } else {
                    serde_json::from_str(&old).with_context(|| {
                        format!(
                            "{} is no JSON that can be merged into (comments are not JSON)",
                            file.display()
                        )
                    })?
                };
                let place =
                    whole.as_object_mut().with_context(|| format!("{} holds no object", file.display()))?;
                let servers = place.entry(*below).or_insert_with(|| json!({}));
                let servers = servers
                    .as_object_mut()
                    .with_context(|| format!("{below} in {} is no object", file.display()))?;
                servers.extend(entry.as_object().cloned().unwrap_or_default());
                Ok(Some((file, serde_json::to_string_pretty(&whole)? + "\n")))
            }
            Recipe::Toml { file, table } => {
                let old = read_or_empty(file)?;
                let mut whole: toml::Table =
                    toml::from_str(&old).with_context(|| format!("{} is no TOML", file.display()))?;
                for (name, value) in table {
                    match (whole.get_mut(name), value) {
                        (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new.clone()),
                        _ => drop(whole.insert(name.clone(), value.clone())),
                    }
                }
                Ok(Some((file, toml::to_string(&whole)?)))
            }
        }
    }

    fn apply(&self) -> anyhow::Result<()> {
        if let Recipe::Run(words) = self {
            return run(words);
        }
        self.prepare()?.map_or(Ok(()), |(file, text)| write(file, &text))
    }
}

fn run(words: &[String]) -> anyhow::Result<()> {
    let (program, arguments) = words.split_first().context("nothing to run")?;
    // A server of that name from an earlier time would be in the way.
    if let Some(server) = arguments.get(6) {
        let _ = Command::new(program).args(["mcp", "remove", "--scope", "user", server]).output();
    }
    let output = Command::new(program)
        .args(arguments)
        .output()
        .with_context(|| format!("cannot run {program}: is it installed?"))?;
    if !output.status.success() {
        // Its words may repeat the key, which stood on its command line.
        bail!("{program} failed with {}", output.status);
    }
    Ok(())
}

/// The file holds a key from then on, so it is this user's alone.
fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // A configuration that is kept elsewhere and linked to stays a link.
    let file = &std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    write_private(file, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
}

fn read_or_empty(file: &Path) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
}

fn user_home() -> anyhow::Result<PathBuf> {
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
    home.map(PathBuf::from).context("HOME is not set")
}

/// What the client has to start `consentry stdio` with.
fn environment(key: &str) -> Value {
    let mut environment = json!({ env::KEY: key });
    // Whole, for the client runs it in a folder of its own choice.
    if let Some(home) = std::env::var_os(env::HOME).filter(|home| !home.is_empty()) {
        environment[env::HOME] = json!(std::path::absolute(&home).unwrap_or_else(|_| home.into()));
    }
    environment
}

/// Refuses a path that this version does not have.
pub(crate) fn built(path: &PathName) -> anyhow::Result<()> {
    anyhow::ensure!(
        *path == PathName::browser(),
        "there is no {path} path in this version; allowed: browser"
    );
    Ok(())
}

/// The port that clients are told, as it is written.
pub(crate) fn mcp_port(home: &Home) -> anyhow::Result<u16> {
    let text = read_or_empty(&home.config())?;
    let settings = Settings::parse(&text, "this machine", &[PathName::browser()]).context("config.toml")?;
    Ok(settings.ports.mcp)
}
