//! Every environment variable that this program reads, declared once.

/// `1`: print where the buttons are, as one JSON line on stderr. For tests and for the demonstration's hand.
pub(crate) const LAYOUT: &str = "CONSENTRY_DIALOG_LAYOUT";
/// `light` (the default) or `dark`.
pub(crate) const THEME: &str = "CONSENTRY_THEME";
/// The whole-number scale that desktops set for their own programs; asked where the display has no `Xft.dpi`.
#[cfg(target_os = "linux")]
pub(crate) const SCALE: &str = "GDK_SCALE";
/// The session that logind is asked about.
#[cfg(target_os = "linux")]
pub(crate) const SESSION: &str = "XDG_SESSION_ID";

/// The variable's value, if it is set to something.
pub(crate) fn value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
