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
    edge: rgb(0xc4_c9_d2),
    text: rgb(0x15_1a_23),
    muted: rgb(0x5c_66_75),
    accent: rgb(0x1d_5f_d6),
    on_accent: rgb(0xff_ff_ff),
    accent_hover: rgb(0x17_51_bb),
    accent_pressed: rgb(0x11_40_97),
    quote: rgb(0xf0_f5_fe),
    well: rgb(0xf5_f6_f8),
    plain: rgb(0xff_ff_ff),
    plain_hover: rgb(0xf0_f2_f5),
    plain_pressed: rgb(0xe2_e6_eb),
    plain_edge: rgb(0xc4_c9_d2),
    amber: rgb(0xb4_6a_00),
    amber_ground: rgb(0xff_f6_e0),
    amber_text: rgb(0x6b_42_05),
    track: rgb(0xe4_e7_ec),
};

const DARK: Theme = Theme {
    ground: rgb(0x1c_20_27),
    edge: rgb(0x45_4d_5a),
    text: rgb(0xf0_f2_f5),
    muted: rgb(0x9e_a8_b7),
    accent: rgb(0x2f_6b_dc),
    on_accent: rgb(0xff_ff_ff),
    accent_hover: rgb(0x36_70_dc),
    accent_pressed: rgb(0x25_5a_be),
    quote: rgb(0x23_2c_3c),
    well: rgb(0x14_17_1c),
    plain: rgb(0x2a_2f_38),
    plain_hover: rgb(0x35_3b_46),
    plain_pressed: rgb(0x20_25_2d),
    plain_edge: rgb(0x4a_53_61),
    amber: rgb(0xf0_b0_42),
    amber_ground: rgb(0x35_2b_18),
    amber_text: rgb(0xf6_d9_a4),
    track: rgb(0x33_39_44),
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
