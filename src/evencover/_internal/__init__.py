"""What the other modules share and users do not import: arrays, frames, files, bins and pools of scores."""
