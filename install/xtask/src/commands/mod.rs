pub(crate) mod extension;
