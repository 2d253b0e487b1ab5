"""Every built-in policy keeps the contract that is shipped for plug-ins."""

from types import MappingProxyType

from zoolens.faces.serving.policies.fixed import Fixed
from zoolens.faces.serving.policies.latency import Latency
from zoolens.faces.serving.policies.memory import Memory
from zoolens.faces.serving.policies.time_of_day import TimeOfDay
from zoolens.testing.policy_contract import PolicyContract


class TestFixed(PolicyContract):
    policy_class = Fixed


class TestLatency(PolicyContract):
    policy_class = Latency
    settings = MappingProxyType({"target": "50 ms"})


class TestMemory(PolicyContract):
    policy_class = Memory
    settings = MappingProxyType({"limit": 250})


class TestTimeOfDay(PolicyContract):
    policy_class = TimeOfDay
    settings = MappingProxyType(
        {
            "windows": [{"start": "22:00", "end": "06:00", "within": 0.9}],
            "budget": {"amount": 100, "unit": "J", "per": 60},
        }
    )
