"""A variational autoencoder of points on a circle. Source: Kingma and Welling, 2014."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class VAE(nn.Module):
    def __init__(self, latent=2, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, 2 * latent))
        self.decoder = nn.Sequential(
            nn.Linear(latent, width),
            nn.Tanh(),
            nn.Linear(width, width),
            nn.Tanh(),
            nn.Linear(width, 2),
        )

    def forward(self, x):
        mean, logvar = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * logvar)
        return self.decoder(z), mean, logvar


def circle(count):
    angle = torch.rand(count) * 2 * math.pi
    return torch.stack([angle.cos(), angle.sin()], 1) + 0.02 * torch.randn(count, 2)


def main():
    torch.manual_seed(0)
    model = VAE()
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)
    first = last = None
    for step in range(500):
        x = circle(128)
        y, mean, logvar = model(x)
        rebuilt = F.mse_loss(y, x, reduction="sum") / len(x)
        kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).sum() / len(x)
        loss = rebuilt + 0.02 * kl
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        last = loss.item()
        first = last if step == 0 else first
    with torch.no_grad():
        radius = model.decoder(torch.randn(500, 2)).square().sum(1).sqrt()
    off = (radius - 1).abs().mean().item()
    print(f"loss {first:.3f} -> {last:.3f}; new points are {off:.3f} off the circle")
    assert last < 0.25 * first and off < 0.2


if __name__ == "__main__":
    main()
