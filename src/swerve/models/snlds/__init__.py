"""The switching (non)linear dynamical system: p(x, z, s), q(z | x), and the bound."""
