"""From a folder or hub id to a network with weights and a text codec."""
