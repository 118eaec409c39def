//! Colours.

use crate::environment;

/// A colour with its opacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Colour {
    pub(crate) red: u8,
    pub(crate) green: u8,
    pub(crate) blue: u8,
    pub(crate) alpha: u8,
}

/// The colours of one look. Text against its ground has a contrast of 4.5 to 1 or better.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Theme {
    pub(crate) ground: Colour,
    pub(crate) edge: Colour,
    pub(crate) text: Colour,
    pub(crate) muted: Colour,
    pub(crate) accent: Colour,
    pub(crate) on_accent: Colour,
    pub(crate) accent_hover: Colour,
    pub(crate) accent_pressed: Colour,
    pub(crate) quote: Colour,
    pub(crate) well: Colour,
    pub(crate) plain: Colour,
    pub(crate) plain_hover: Colour,
    pub(crate) plain_pressed: Colour,
    pub(crate) plain_edge: Colour,
    pub(crate) amber: Colour,
    pub(crate) amber_ground: Colour,
    pub(crate) amber_text: Colour,
    pub(crate) track: Colour,
}

const LIGHT: Theme = Theme {
    ground: rgb(0xff_ff_ff),
    edge: rgb(0xc9_c5_ba),
    text: rgb(0x1d_25_24),
    muted: rgb(0x5c_68_66),
    accent: rgb(0x1f_59_56),
    on_accent: rgb(0xff_ff_ff),
    accent_hover: rgb(0x19_4a_47),
    accent_pressed: rgb(0x12_3a_38),
    quote: rgb(0xee_f3_f1),
    well: rgb(0xf7_f5_f0),
    plain: rgb(0xff_ff_ff),
    plain_hover: rgb(0xee_f3_f1),
    plain_pressed: rgb(0xdf_e6_e3),
    plain_edge: rgb(0xc9_c5_ba),
    amber: rgb(0xb4_6a_00),
    amber_ground: rgb(0xff_f6_e0),
    amber_text: rgb(0x6b_42_05),
    track: rgb(0xdf_db_d1),
};

const DARK: Theme = Theme {
    ground: rgb(0x1d_24_23),
    edge: rgb(0x45_52_4f),
    text: rgb(0xe8_ec_e9),
    muted: rgb(0x9d_aa_a6),
    accent: rgb(0x2a_75_6e),
    on_accent: rgb(0xff_ff_ff),
    accent_hover: rgb(0x2d_7b_74),
    accent_pressed: rgb(0x22_60_5a),
    quote: rgb(0x24_30_2e),
    well: rgb(0x14_19_18),
    plain: rgb(0x2a_33_31),
    plain_hover: rgb(0x34_3f_3c),
    plain_pressed: rgb(0x20_28_26),
    plain_edge: rgb(0x4b_58_55),
    amber: rgb(0xf0_b0_42),
    amber_ground: rgb(0x35_2b_18),
    amber_text: rgb(0xf6_d9_a4),
    track: rgb(0x32_3c_3a),
};

impl Theme {
    /// The look that the environment asks for.
    pub(crate) fn from_environment() -> Self {
        match environment::value(environment::THEME).as_deref() {
            Some("dark") => DARK,
            _ => LIGHT,
        }
    }
}

impl Colour {
    /// The same colour, that much as opaque.
    pub(crate) fn faded(self, by: f32) -> Self {
        let alpha = (f32::from(self.alpha) * by).clamp(0.0, 255.0) as u8;
        Self { alpha, ..self }
    }
}

const fn rgb(hex: u32) -> Colour {
    let [_, red, green, blue] = hex.to_be_bytes();
    Colour { red, green, blue, alpha: 255 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance, as WCAG 2.2 defines it.
    fn luminance(colour: Colour) -> f64 {
        let linear = |channel: u8| {
            let value = f64::from(channel) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue)
    }

    #[test]
    fn every_text_can_be_read_on_its_ground() {
        for theme in [LIGHT, DARK] {
            for (text, ground) in [
                (theme.text, theme.ground),
                (theme.muted, theme.ground),
                (theme.text, theme.quote),
                (theme.muted, theme.quote),
                (theme.text, theme.well),
                (theme.amber_text, theme.amber_ground),
                (theme.on_accent, theme.accent),
                (theme.on_accent, theme.accent_hover),
                (theme.on_accent, theme.accent_pressed),
                (theme.text, theme.plain),
                (theme.text, theme.plain_hover),
                (theme.text, theme.plain_pressed),
            ] {
                let (one, other) = (luminance(text), luminance(ground));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 4.5, "{text:?} on {ground:?}: {contrast:.1}");
            }
        }
    }
}
