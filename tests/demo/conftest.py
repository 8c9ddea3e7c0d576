"""What the shop's tests stand on."""

import pytest
from django.contrib.auth import get_user_model

from agents.services import conversations
from demo import orders
from inbox.services import items

STOCK = "sku,name,cents,bags\nyirgacheffe,Yirgacheffe,1800,24\nhuila,Huila,1650,0\ndecaf,Sierra Decaf,1550,1\n"


@pytest.fixture
def stock_file(tmp_path, monkeypatch):
    path = tmp_path / "stock.csv"
    path.write_text(STOCK)
    monkeypatch.setenv("GLOVE_DEMO_STOCK", str(path))
    return path


@pytest.fixture
def ada(db):
    return get_user_model().objects.create_user("ada")


@pytest.fixture
def boss(db):
    return get_user_model().objects.create_superuser("boss")


@pytest.fixture
def conversation(ada, stock_file):
    return conversations.open_for(ada, "concierge")


@pytest.fixture
def paid_order(ada, stock_file):
    """Two bags, €36.00."""
    order = orders.place(ada, "yirgacheffe", 2, key="first")
    return orders.pay(order.pk)


@pytest.fixture
def ask(conversation):
    """Post a request to ada's mailbox."""

    def post(tag, request, **more):
        return items.post(conversation.mailbox_id, tag=tag, request=request, origin=conversation.pk, **more)

    return post
