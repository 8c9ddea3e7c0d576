"""Where an agent's state lives: the models, this process's memory, or a store of one's own."""
