"""A tagger for token ids (N, T): an LSTM in both directions, then a GRU; a row of scores for each token."""

import torch
from safetensors.torch import load_file
from torch import nn

WIDTH = 12
HIDDEN = 10
VOCABULARY = 53
TAGS = 7


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(2 * HIDDEN, HIDDEN, batch_first=True)
        self.norm = nn.LayerNorm(HIDDEN, eps=1e-5)
        self.out = nn.Linear(HIDDEN, TAGS)

    def forward(self, ids):
        x, _ = self.lstm(self.embedding(ids))
        x, _ = self.gru(x)
        return self.out(self.norm(x))


def load(path):
    net = Net()
    net.load_state_dict(load_file(path))
    return net.eval()


def run(net, ids):
    with torch.no_grad():
        return net(torch.from_numpy(ids)).numpy()
