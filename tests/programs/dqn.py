"""Deep Q-learning walks a corridor to its end. Source: Mnih et al., 2015."""

import copy
import random
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

LENGTH = 8


def observe(place):
    return F.one_hot(torch.tensor(place), LENGTH).float()


def act(place, action):
    """Moves left (0) or right (1): the new place, the reward, whether it is over."""
    place = max(place - 1, 0) if action == 0 else place + 1
    return place, (1.0 if place == LENGTH - 1 else -0.01), place == LENGTH - 1


def main():
    random.seed(0)
    torch.manual_seed(0)
    policy = nn.Sequential(nn.Linear(LENGTH, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(policy)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    memory = deque(maxlen=2000)
    steps = 0
    for episode in range(60):
        place, over, epsilon = 0, False, max(0.05, 1 - episode / 30)
        for _ in range(40):
            with torch.no_grad():
                best = policy(observe(place)).argmax().item()
            action = random.randrange(2) if random.random() < epsilon else best
            following, reward, over = act(place, action)
            memory.append((place, action, reward, following, over))
            place = following
            steps += 1
            if len(memory) >= 64 and steps % 2 == 0:
                batch = random.sample(memory, 32)
                s = torch.stack([observe(b[0]) for b in batch])
                a = torch.tensor([b[1] for b in batch]).unsqueeze(1)
                r = torch.tensor([b[2] for b in batch])
                n = torch.stack([observe(b[3]) for b in batch])
                done = torch.tensor([b[4] for b in batch])
                q = policy(s).gather(1, a).squeeze(1)
                with torch.no_grad():
                    wanted = r + 0.95 * target(n).max(1).values * (~done)
                loss = F.smooth_l1_loss(q, wanted)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if steps % 50 == 0:
                target.load_state_dict(policy.state_dict())
            if over:
                break
    place, taken = 0, 0
    with torch.no_grad():
        while place < LENGTH - 1 and taken < 40:
            place, _, _ = act(place, policy(observe(place)).argmax().item())
            taken += 1
    print(f"the end after {taken} moves")
    assert taken == LENGTH - 1


if __name__ == "__main__":
    main()
