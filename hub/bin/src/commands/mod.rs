//! The commands, one file each.

pub(crate) mod audit;
pub(crate) mod connect;
pub(crate) mod disable;
pub(crate) mod doctor;
pub(crate) mod enable;
pub(crate) mod extension;
pub(crate) mod key;
pub(crate) mod kill;
pub(crate) mod log;
pub(crate) mod open;
pub(crate) mod serve;
pub(crate) mod setup;
pub(crate) mod site;
pub(crate) mod status;
pub(crate) mod stdio;
