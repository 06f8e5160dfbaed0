"""From a prompt to a response: what is asked of the network, one packed pass, and whose turn it is."""
